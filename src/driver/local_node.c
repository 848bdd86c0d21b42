#include "driver/local_node.h"
#include "base/io.h"
#include "base/mem.h"
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

enum { NODE_FILE_BYTES_MAX = 4096 };

/* ORDER: the reader below reads these members. Numbers above 2^63 travel as hex text. */
bool local_node_write(const struct local_node *node, const char *nodes_dir, struct error *ret_error)
{
    char path[4096], text[NODE_FILE_BYTES_MAX];
    int length = snprintf(path, sizeof path, "%s/%" PRIu64 ".json", nodes_dir, node->key);
    if (length < 0 || (size_t)length >= sizeof path)
        return error_set(ret_error, "%s: the path is too long", nodes_dir);
    int bytes =
        snprintf(text, sizeof text,
                 "{\"key\":\"%016" PRIx64 "\",\"offer\":%" PRId32 ",\"phase\":%u,\"reason\":%u,"
                 "\"serial\":%u,\"mark\":\"%016" PRIx64 "\",\"pid\":%" PRId32
                 ",\"start_ticks\":%" PRIu64 ",\"asked_us\":%" PRId64 ",\"boot_at_us\":%" PRId64
                 ",\"up_us\":%" PRId64 ",\"gone_us\":%" PRId64 ",\"preempt_us\":%" PRId64
                 ",\"notice_us\":%" PRId64 ",\"bid_usd_micros\":%" PRId64
                 ",\"place_back_us\":%" PRId64 ",\"billed_usd_micros\":%" PRId64
                 ",\"billed_rest\":%" PRId64 ",\"billed_to_us\":%" PRId64 "}\n",
                 node->key, (int32_t)node->offer_index, node->phase, node->reason, node->serial,
                 node->machine.mark, node->machine.pid, node->machine.start_ticks, node->asked_us,
                 node->boot_at_us, node->up_us, node->gone_us, node->preempt_us, node->notice_us,
                 node->bid_usd_micros, node->place_back_us, node->billed_usd_micros,
                 node->billed_rest, node->billed_to_us);
    if (bytes < 0 || (size_t)bytes >= sizeof text)
        return error_set(ret_error, "%s: the record is too long", path);
    return io_write_file(path, text, (size_t)bytes, 0600, ret_error);
}

struct reader {
    const json_t *object;
    bool good;
};

static int64_t read_integer(struct reader *reader, const char *key)
{
    const json_t *value = json_object_get(reader->object, key);
    if (!json_is_integer(value)) reader->good = false;
    return json_integer_value(value);
}

static uint32_t read_u32(struct reader *reader, const char *key, uint32_t max)
{
    int64_t value = read_integer(reader, key);
    if (value < 0 || value > (int64_t)max) reader->good = false;
    return (uint32_t)value;
}

static uint64_t read_hex(struct reader *reader, const char *key)
{
    const char *text = json_string_value(json_object_get(reader->object, key));
    uint64_t value = 0;
    if (text == NULL || sscanf(text, "%16" SCNx64, &value) != 1) reader->good = false;
    return value;
}

static bool read_members(const json_t *object, struct local_node *ret_node)
{
    struct reader r = {.object = object, .good = true};
    *ret_node = (struct local_node){
        .key = read_hex(&r, "key"),
        .offer_index = (uint32_t)read_integer(&r, "offer"),
        .phase = read_u32(&r, "phase", NODE_PHASE_END - 1),
        .reason = read_u32(&r, "reason", NODE_REASON_END - 1),
        .serial = read_u32(&r, "serial", UINT32_MAX - 1),
        .machine = {.mark = read_hex(&r, "mark"),
                    .pid = (int32_t)read_u32(&r, "pid", INT32_MAX),
                    .start_ticks = (uint64_t)read_integer(&r, "start_ticks")},
        .asked_us = read_integer(&r, "asked_us"),
        .boot_at_us = read_integer(&r, "boot_at_us"),
        .up_us = read_integer(&r, "up_us"),
        .gone_us = read_integer(&r, "gone_us"),
        .preempt_us = read_integer(&r, "preempt_us"),
        .notice_us = read_integer(&r, "notice_us"),
        .bid_usd_micros = json_integer_value(json_object_get(object, "bid_usd_micros")),
        .place_back_us = read_integer(&r, "place_back_us"),
        .billed_usd_micros = read_integer(&r, "billed_usd_micros"),
        .billed_rest = read_integer(&r, "billed_rest"),
        .billed_to_us = read_integer(&r, "billed_to_us"),
    };
    return r.good && ret_node->key != 0 && ret_node->phase != 0;
}

bool local_node_read(const char *file, struct local_node *ret_node, struct error *ret_error)
{
    char *text;
    size_t bytes;
    if (!io_read_file(file, NODE_FILE_BYTES_MAX, &text, &bytes, ret_error)) return false;
    json_t *object = json_loadb(text, bytes, 0, NULL);
    mem_free(text);
    struct local_node node;
    bool good = object != NULL && read_members(object, &node);
    json_decref(object);
    if (!good)
        return error_set(ret_error,
                         "%s: not a node record; end the machine it stands for, remove it and "
                         "start again",
                         file);
    *ret_node = node;
    return true;
}
