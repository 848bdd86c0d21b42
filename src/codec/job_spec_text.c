/* The canonical text of a job: JSON that the YAML reader reads back to the same job. */
#include "base/mem.h"
#include "codec/job_spec.h"
#include "codec/names.h"
#include "core/assert.h"
#include "core/limits.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <xxhash.h>

/* Written twice: once without a buffer to measure, once for real. */
struct writer {
    char *out; /* NULL: measure only */
    size_t used_bytes;
    bool comma; /* something stands before in this map or list */
};

static void put(struct writer *w, const char *bytes, size_t count)
{
    if (w->out != NULL) memcpy(w->out + w->used_bytes, bytes, count);
    w->used_bytes += count;
}

static void put_text(struct writer *w, const char *text)
{
    put(w, text, strlen(text));
}

/* The code point of a UTF-8 sequence (valid: it came out of libyaml) and its bytes. */
static uint32_t code_point(const char *text, size_t *ret_bytes)
{
    unsigned char first = (unsigned char)text[0];
    *ret_bytes = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    uint32_t point = *ret_bytes == 1 ? first : first & (0xffu >> (*ret_bytes + 1));
    for (size_t i = 1; i < *ret_bytes; i++) point = point << 6 | ((unsigned char)text[i] & 0x3f);
    return point;
}

/* What YAML does not take raw between quotes, or takes for a line break. Above 0xffff an escape
 * would need JSON's surrogate pairs, which YAML refuses; all of that is allowed raw. */
static bool needs_escape(uint32_t point)
{
    return point < 0x20 || (point >= 0x7f && point < 0xa0) || point == 0x2028 || point == 0x2029 ||
           point == 0xfeff || point == 0xfffe || point == 0xffff;
}

static void put_string(struct writer *w, const char *text)
{
    put_text(w, "\"");
    for (size_t bytes; *text != '\0'; text += bytes) {
        uint32_t point = code_point(text, &bytes);
        char escape[16];
        if (needs_escape(point)) {
            (void)snprintf(escape, sizeof escape, "\\u%04" PRIx32, point);
            put_text(w, escape);
            continue;
        }
        if (point == '"' || point == '\\') put_text(w, "\\");
        put(w, text, bytes);
    }
    put_text(w, "\"");
}

static void open_at(struct writer *w, const char *key, const char *bracket)
{
    if (w->comma) put_text(w, ", ");
    if (key != NULL) {
        put_string(w, key);
        put_text(w, ": ");
    }
    put_text(w, bracket);
    w->comma = bracket[0] == '\0';
}

static void close_with(struct writer *w, const char *bracket)
{
    put_text(w, bracket);
    w->comma = true;
}

static void put_member(struct writer *w, const char *key, const char *value)
{
    if (value[0] == '\0') return; /* absent */
    open_at(w, key, "");
    put_string(w, value);
}

PRINTF_LIKE(3, 4) static void put_number(struct writer *w, const char *key, const char *format, ...)
{
    char number[64];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(number, sizeof number, format, args); /* any two numbers fit */
    va_end(args);
    open_at(w, key, "");
    put_text(w, number);
}

static void put_micros(struct writer *w, const char *key, int64_t micros)
{
    ASSERT(micros >= 0);
    if (micros != 0)
        put_number(w, key, "%" PRId64 ".%06" PRId64, micros / 1000000, micros % 1000000);
}

static void put_list(struct writer *w, const char *key, const struct text_list *list)
{
    open_at(w, key, "[");
    for (uint32_t i = 0; i < list->count; i++) {
        open_at(w, NULL, "");
        put_string(w, text_list_at(list, i));
    }
    close_with(w, "]");
}

static void put_parts(struct writer *w, const struct job_terms *terms)
{
    if (terms->host_only) put_number(w, "share", "%d", 0);
    put_micros(w, "share", (int64_t)terms->device_milli * 1000);
    if (terms->mig_profile != 0) {
        char name[32];
        int bytes = snprintf(name, sizeof name, "%" PRIu32 "g", terms->mig_profile);
        if (terms->device_memory_mib != 0)
            (void)snprintf(name + bytes, sizeof name - (size_t)bytes, ".%" PRIu32 "gb",
                           terms->device_memory_mib / 1024);
        open_at(w, "mig", "");
        put_string(w, name);
    } else if (terms->device_memory_mib != 0)
        put_number(w, "share_memory_gb", "%" PRIu32, terms->device_memory_mib / 1024);
    if (terms->host_cpu_milli == 0 && terms->host_memory_mib == 0) return;
    open_at(w, "host", "{");
    put_micros(w, "cpus", (int64_t)terms->host_cpu_milli * 1000);
    if (terms->host_memory_mib != 0)
        put_number(w, "memory_gb", "%" PRIu32, terms->host_memory_mib / 1024);
    close_with(w, "}");
}

static void put_nearness(struct writer *w, const struct job_terms *terms)
{
    if (terms->affinity != TOPOLOGY_ANY) put_member(w, "same", name_topology(terms->affinity));
    if (terms->spread != TOPOLOGY_ANY) put_member(w, "spread", name_topology(terms->spread));
}

static void put_needs(struct writer *w, const struct catalog *catalog, const struct job_spec *spec)
{
    char vram[32];
    open_at(w, "needs", "{");
    open_at(w, "capabilities", "[");
    for (uint32_t i = 0; i < catalog->capability_count; i++) {
        if ((spec->need.capability_mask >> i & 1) == 0) continue;
        open_at(w, NULL, "");
        put_string(w, catalog->capabilities[i]);
    }
    if (spec->need.vram_min_mib != 0) {
        (void)snprintf(vram, sizeof vram, "%" PRIu32 "gb-vram", spec->need.vram_min_mib / 1024);
        open_at(w, NULL, "");
        put_string(w, vram);
    }
    close_with(w, "]");
    if (spec->pool_count > 0) {
        open_at(w, "pools", "[");
        for (uint32_t i = 0; i < spec->pool_count; i++) {
            open_at(w, NULL, "");
            put_string(w, spec->pools[i]);
        }
        close_with(w, "]");
    }
    put_micros(w, "ncu", (int64_t)spec->terms.ncu_milli * 1000);
    if (spec->terms.ncu_milli == 0) {
        open_at(w, "devices", "{");
        put_number(w, "min", "%" PRIu32, spec->devices_min);
        put_number(w, "max", "%" PRIu32, spec->devices_max);
        close_with(w, "}");
    }
    put_parts(w, &spec->terms);
    put_nearness(w, &spec->terms);
    if (spec->degrades) put_member(w, "degrade", "next-tier");
    close_with(w, "}");
}

static void put_data(struct writer *w, const struct job_spec *spec)
{
    if (spec->data_region[0] == '\0') return;
    open_at(w, "data", "{");
    put_member(w, "region", spec->data_region);
    put_micros(w, "gb", (int64_t)(spec->terms.data_bytes / 1000));
    close_with(w, "}");
}

static void put_market(struct writer *w, const struct job_spec *spec)
{
    open_at(w, "budget", "{");
    put_micros(w, "usd_per_hour", spec->budget_usd_micros_per_hour);
    put_micros(w, "usd", spec->budget_usd_micros);
    if (spec->terms.gate != GATE_AS_DEFINED)
        put_member(w, "above_gate", spec->terms.gate == GATE_REFUSES ? "refuse" : "wait");
    close_with(w, "}");
    open_at(w, "market", "{");
    if (spec->capacity_mask != 0) {
        open_at(w, "kinds", "[");
        for (uint32_t kind = 1; kind < CAPACITY_KIND_END; kind++) {
            if ((spec->capacity_mask >> kind & 1) == 0) continue;
            open_at(w, NULL, "");
            put_string(w, name_capacity(kind));
        }
        close_with(w, "]");
    }
    put_micros(w, "price_threshold", spec->price_threshold_ppm);
    put_member(w, "region", spec->region);
    close_with(w, "}");
}

static void put_elastic(struct writer *w, const struct job_spec *spec)
{
    if (spec->kind != JOB_KIND_ELASTIC) return;
    open_at(w, "elastic", "{");
    put_number(w, "slots", "%" PRIu32, spec->slots);
    put_number(w, "steps", "%" PRIu64, spec->steps);
    if (spec->checkpoint_every == JOB_CHECKPOINT_AUTO)
        put_member(w, "checkpoint_every", "auto");
    else
        put_number(w, "checkpoint_every", "%" PRIu32, spec->checkpoint_every);
    if (spec->checkpoint_dir[0] != '\0') put_member(w, "checkpoint_dir", spec->checkpoint_dir);
    if (spec->work_per_slot_us != 0)
        put_number(w, "work_per_slot", "\"%" PRId64 "us\"", spec->work_per_slot_us);
    close_with(w, "}");
}

static void put_work(struct writer *w, const struct catalog *catalog, const struct job_spec *spec)
{
    if (spec->work[0] == '\0') return;
    open_at(w, "work", "{");
    put_member(w, "name", spec->work);
    if (spec->terms.run_us != 0) put_number(w, "time", "\"%" PRId64 "us\"", spec->terms.run_us);
    if (spec->parameters != 0) put_number(w, "parameters", "\"%" PRIu64 "\"", spec->parameters);
    if (spec->rate_count > 0) open_at(w, "rates", "{");
    for (uint32_t i = 0; i < spec->rate_count; i++)
        put_number(w, catalog->models[spec->rates[i].model].name, "%" PRIu64 ".%06" PRIu64,
                   spec->rates[i].rate_micro / 1000000, spec->rates[i].rate_micro % 1000000);
    if (spec->rate_count > 0) close_with(w, "}");
    close_with(w, "}");
}

/* A run time that follows from the steps follows again. */
static void put_deadline(struct writer *w, const struct job_spec *spec)
{
    int64_t us = spec->terms.deadline_us;
    if (us == 0) return;
    if (us <= TERMS_US_MAX)
        put_number(w, "deadline", "\"%" PRId64 "us\"", us);
    else
        put_number(w, "deadline", "\"%" PRId64 "\"", us / 1000000);
}

static void put_spec(struct writer *w, const struct catalog *catalog, const struct job_spec *spec)
{
    open_at(w, NULL, "{");
    put_member(w, "name", spec->name);
    put_member(w, "class", name_job_class(spec->job_class));
    put_member(w, "kind", name_job_kind(spec->kind));
    open_at(w, "owner", "{");
    put_member(w, "tenant", spec->tenant);
    put_member(w, "project", spec->project);
    put_member(w, "team", spec->team);
    put_member(w, "user", spec->user);
    put_member(w, "experiment", spec->experiment);
    close_with(w, "}");
    put_needs(w, catalog, spec);
    put_data(w, spec);
    put_market(w, spec);
    put_elastic(w, spec);
    put_work(w, catalog, spec);
    put_deadline(w, spec);
    open_at(w, "run", "{");
    put_list(w, "command", &spec->command);
    open_at(w, "env", "{");
    for (uint32_t i = 0; i + 1 < spec->env.count; i += 2) {
        open_at(w, text_list_at(&spec->env, i), "");
        put_string(w, text_list_at(&spec->env, i + 1));
    }
    close_with(w, "}");
    put_member(w, "dir", spec->dir);
    close_with(w, "}");
    close_with(w, "}");
}

char *job_spec_text(const struct catalog *catalog, const struct job_spec *spec)
{
    struct writer measure = {0};
    put_spec(&measure, catalog, spec);
    struct writer real = {.out = mem_alloc(measure.used_bytes + 1)};
    if (real.out == NULL) return NULL;
    put_spec(&real, catalog, spec);
    ASSERT(real.used_bytes == measure.used_bytes);
    real.out[real.used_bytes] = '\0';
    return real.out;
}

uint64_t job_spec_text_hash(const char *text)
{
    uint64_t hash = XXH3_64bits(text, strlen(text));
    return hash == 0 ? 1 : hash; /* 0 means "no spec" elsewhere */
}
