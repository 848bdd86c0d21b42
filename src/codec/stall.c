#include "codec/stall.h"
#include "core/event.h"
#include "core/limits.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static uint64_t short_key(uint64_t key)
{
    return key & ((UINT64_C(1) << KEY_SHIFT) - 1);
}

struct text {
    char *bytes;
    size_t at;
};

static void __attribute__((format(printf, 2, 3))) put(struct text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length =
        vsnprintf(text->bytes + text->at, STALL_SENTENCE_BYTES - text->at, format, arguments);
    va_end(arguments);
    text->at += length < 0 ? 0 : (size_t)length;
    if (text->at >= STALL_SENTENCE_BYTES) text->at = STALL_SENTENCE_BYTES - 1; /* cut, still ends */
}

/* 7.1 s, 240 ms: two digits are enough for a reader. */
static void put_time(struct text *text, int64_t us)
{
    int64_t tenths = (us + 50000) / 100000;
    if (us >= 100000000)
        put(text, "%" PRId64 " s", us / 1000000);
    else if (us >= 1000000)
        put(text, "%" PRId64 ".%" PRId64 " s", tenths / 10, tenths % 10);
    else if (us >= 10000)
        put(text, "%" PRId64 " ms", us / 1000);
    else
        put(text, "%" PRId64 ".%" PRId64 " ms", us / 1000, us % 1000 / 100);
}

static void put_worker(struct text *text, uint64_t worker, uint64_t node)
{
    put(text, "worker %" PRIu64, short_key(worker));
    if (node != 0) put(text, " on node %" PRIu64, short_key(node));
}

uint32_t stall_kind_of(const struct report_culprit *culprit)
{
    static const struct {
        const char *kind;
        uint32_t stall, slow;
    } kinds[] = {
        {"silent", STALL_SILENT, STALL_SILENT},   {"host", STALL_HOST, SLOW_COMPUTE},
        {"data", STALL_DATA, SLOW_DATA},          {"compute", STALL_COMPUTE, SLOW_COMPUTE},
        {"storage", STALL_STORAGE, SLOW_STORAGE}, {"link", STALL_LINK, SLOW_LINK},
        {"network", STALL_NETWORK, SLOW_NETWORK}, {"diverged", STALL_DIVERGED, STALL_DIVERGED},
    };
    for (uint32_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(kinds[i].kind, culprit->kind) == 0)
            return culprit->slow ? kinds[i].slow : kinds[i].stall;
    return STALL_COMPUTE;
}

/* "for 7.1 s, usually 120 ms" */
static void put_span(struct text *text, int64_t for_us, int64_t usual_us)
{
    put(text, " for ");
    put_time(text, for_us);
    if (usual_us <= 0) return;
    put(text, ", usually ");
    put_time(text, usual_us);
}

static void put_call(struct text *text, const struct report_stuck *stuck)
{
    if (stuck == NULL || stuck->call[0] == '\0') return;
    put(text, " (in %s", stuck->call);
    if (stuck->wchan[0] != '\0') put(text, ", kernel: %s", stuck->wchan);
    put(text, ")");
}

static void put_stopped(struct text *text, const struct report_stuck *stuck)
{
    put(text, "its process is stopped by a signal (state T)");
    if (stuck->for_us > 0) put_span(text, stuck->for_us, 0);
    if (stuck->phase[0] != '\0' && strcmp(stuck->phase, "unknown") != 0)
        put(text, ", in %s of step %" PRIu64, stuck->phase, stuck->step);
    if (stuck->pid != 0) put(text, "; kill -CONT %" PRIu64 " lets it go on", stuck->pid);
}

static bool is_stopped(const struct report_stuck *stuck)
{
    return stuck != NULL && (stuck->state[0] == 'T' || stuck->state[0] == 't');
}

static void put_slow(struct text *text, const struct report_culprit *culprit)
{
    int64_t usual_us = culprit->usual_us > 0 ? culprit->usual_us : 1;
    int64_t tenths = culprit->for_us * 10 / usual_us;
    const char *what = strcmp(culprit->kind, "data") == 0      ? "waits for data"
                       : strcmp(culprit->kind, "storage") == 0 ? "writes its checkpoint"
                                                               : "computes a slot";
    put(text, "%s for ", what);
    put_time(text, culprit->for_us);
    put(text, " instead of ");
    put_time(text, culprit->usual_us);
    if (culprit->usual_us > 0)
        put(text, ", %" PRId64 ".%" PRId64 " times as long", tenths / 10, tenths % 10);
    put(text, "; it moves, and slots move away from it");
}

/* What a busy or blocked program does in its slot. */
static void put_work(struct text *text, const struct report_culprit *culprit,
                     const struct report_stuck *stuck, const char *verb)
{
    put(text, "%s", verb);
    if (strcmp(culprit->phase, "compute") == 0 || strcmp(culprit->phase, "data") == 0)
        put(text, " in slot %" PRIu64, culprit->slot);
    else
        put(text, " in %s", culprit->phase);
    put_span(text, culprit->for_us, culprit->usual_us);
    if (culprit->for_us > 0 && strcmp(culprit->phase, "data") != 0)
        put(text, ", %" PRId64 " %% of a processor", culprit->cpu_us * 100 / culprit->for_us);
    put_call(text, stuck);
}

static void put_fault(struct text *text, const struct report_culprit *culprit,
                      const struct report_stuck *stuck)
{
    switch ((enum stall_kind)stall_kind_of(culprit)) {
    case STALL_SILENT:
        put(text, "nothing has been heard from it");
        put_span(text, culprit->for_us, 0);
        put(text, ": it is stopped, dead or cut off");
        return;
    case STALL_HOST: put_work(text, culprit, stuck, "its program is stuck"); return;
    case STALL_DATA: put_work(text, culprit, stuck, "it waits for data"); return;
    case STALL_COMPUTE: put_work(text, culprit, stuck, "it computes on and on"); return;
    case STALL_STORAGE: put_work(text, culprit, stuck, "its checkpoint is in the way"); return;
    case STALL_NETWORK:
        put(text, "its network does not move data");
        put_span(text, culprit->for_us, culprit->usual_us);
        put(text, ", to most of the others");
        return;
    case STALL_DIVERGED:
        put(text, "it takes part in another collective than the rest; does it run the same code "
                  "on the same data?");
        return;
    case SLOW_NETWORK: put(text, "its network has become slow, to most of the others"); return;
    case SLOW_DATA:
    case SLOW_COMPUTE:
    case SLOW_STORAGE: put_slow(text, culprit); return;
    case STALL_OVER:
    case STALL_STOPPED:
    case STALL_LINK:
    case SLOW_LINK:
    case STALL_KIND_END: return;
    }
}

const char *stall_culprit_text(const struct report_culprit *culprit,
                               const struct report_stuck *stuck, uint64_t node, uint64_t peer_node,
                               char ret_text[STALL_SENTENCE_BYTES])
{
    struct text text = {ret_text, 0};
    ret_text[0] = '\0';
    if (strcmp(culprit->kind, "link") == 0) {
        put(&text, "the network between ");
        put_worker(&text, culprit->worker, node);
        put(&text, " and ");
        put_worker(&text, culprit->peer, peer_node);
        put(&text, culprit->slow ? " has become slow" : " does not move data");
        if (!culprit->slow) put_span(&text, culprit->for_us, culprit->usual_us);
        return ret_text;
    }
    put_worker(&text, culprit->worker, node);
    put(&text, ": ");
    if (is_stopped(stuck))
        put_stopped(&text, stuck);
    else
        put_fault(&text, culprit, stuck);
    if (culprit->dropped) put(&text, "; the others do its slots until it moves");
    return ret_text;
}

const char *stall_stuck_text(uint64_t worker, uint64_t node, const struct report_stuck *stuck,
                             char ret_text[STALL_SENTENCE_BYTES])
{
    struct text text = {ret_text, 0};
    ret_text[0] = '\0';
    put_worker(&text, worker, node);
    put(&text, ": ");
    if (is_stopped(stuck)) {
        put_stopped(&text, stuck);
        return ret_text;
    }
    put(&text, "has not left %s of step %" PRIu64, stuck->phase, stuck->step);
    put_span(&text, stuck->for_us, stuck->usual_us);
    put_call(&text, stuck);
    return ret_text;
}

static bool goes_on_without(const struct report_stall *stall)
{
    for (uint32_t i = 0; i < stall->culprit_count; i++)
        if (!stall->culprits[i].dropped) return false;
    return true;
}

const char *stall_text(const struct report_stall *stall, char ret_text[STALL_SENTENCE_BYTES])
{
    struct text text = {ret_text, 0};
    ret_text[0] = '\0';
    if (stall->culprit_count == 0) {
        put(&text, "nothing holds it up");
        return ret_text;
    }
    put(&text, "step %" PRIu64, stall->step);
    if (stall->stalled) {
        put(&text, " has been waiting ");
        put_time(&text, stall->waited_us);
        put(&text, " for ");
    } else {
        put(&text, goes_on_without(stall) ? " goes on without " : " is slowed down by ");
    }
    for (uint32_t i = 0; i < stall->culprit_count && i < 8; i++) {
        const struct report_culprit *culprit = &stall->culprits[i];
        bool link = strcmp(culprit->kind, "link") == 0;
        put(&text, "%s%s %" PRIu64, i == 0 ? "" : ", ", link ? "the link of worker" : "worker",
            short_key(culprit->worker));
        if (link) put(&text, " to %" PRIu64, short_key(culprit->peer));
    }
    if (stall->culprit_count > 8) put(&text, " and %u more", stall->culprit_count - 8);
    if (stall->stalled && stall->victims > 0)
        put(&text, "; %u of %u workers are victims", stall->victims, stall->workers);
    return ret_text;
}
