#include "base/clock.h"
#include "base/io.h"
#include "base/log.h"
#include "codec/names.h"
#include "driver/local_driver.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* One write() of one line: a reader never sees half of one, except after a full disk. */
static void append(const struct local *local, const char *line, int length)
{
    int fd = io_open_write(local->history_file, O_WRONLY | O_CREAT | O_APPEND, 0600);
    bool written = fd >= 0 && io_write_full(fd, line, (size_t)length);
    if (!written)
        log_line(LOG_WARN, "driver", "history not written, going on", "file=%s error=\"%s\"",
                 local->history_file, error_errno(errno));
    if (fd >= 0) (void)close(fd); /* nothing to do about it: history is not read back */
}

void local_history_node(const struct local *local, enum local_fact fact,
                        const struct local_node *node, int64_t now_us)
{
    static const char *const names[] = {"", "up", "notice", "gone"};
    const struct local_scenario *s = local->world.scenario;
    const struct local_offer *offer = &s->offers[node->offer_index];
    const struct local_zone *zone = &s->zones[offer->zone_index];
    char time[25], line[1024];
    clock_format(now_us, time);
    int length = snprintf(
        line, sizeof line,
        "{\"t\":\"%s\",\"t_us\":%" PRId64 ",\"what\":\"%s\",\"node\":%" PRIu64
        ",\"zone\":\"%s\",\"model\":\"%s\",\"kind\":\"%s\",\"reason\":\"%s\",\"notice_us\":%" PRId64
        ",\"scripted\":%s,\"page\":\"%s\",\"billed_usd_micros\":%" PRId64 "}\n",
        time, now_us, names[fact], node->key, zone->name, offer->model,
        name_capacity(offer->capacity), name_node_reason(node->reason), node->notice_us,
        node->scripted ? "true" : "false", node->died_in_reduce ? "reduce" : "",
        node->billed_usd_micros);
    if (length > 0 && (size_t)length < sizeof line) append(local, line, length);
}

void local_history_event(const struct local *local, uint32_t event_index, int64_t now_us)
{
    static const char *const names[] = {"", "preempt", "price", "stock"};
    const struct local_event *event = &local->world.scenario->events[event_index];
    char time[25], line[1024];
    clock_format(now_us, time);
    int length = snprintf(line, sizeof line,
                          "{\"t\":\"%s\",\"t_us\":%" PRId64
                          ",\"what\":\"script\",\"event\":%u,\"kind\":\"%s\",\"zone\":\"%s\","
                          "\"model\":\"%s\",\"for_us\":%" PRId64 "}\n",
                          time, now_us, event_index, names[event->kind], event->zone, event->model,
                          event->for_us);
    if (length > 0 && (size_t)length < sizeof line) append(local, line, length);
}
