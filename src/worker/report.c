#include "worker/report.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "worker/engine.h"
#include "worker/protocol.h"
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define STATS_US INT64_C(1000000)
/* Each is a line with all workers in it. When the reporter is lost all repeat what may have died with it, and
 * the group has better to do just then; the rest follows with the next ticks. */
enum { COMMITS_AT_ONCE = 2 };

void report_json(struct shoal *shoal, json_t *line)
{
    char *text = line == NULL ? NULL : json_dumps(line, JSON_COMPACT);
    if (text != NULL && shoal->net != NULL) net_send_line(shoal->net, text);
    free(text);
    json_decref(line);
}

void report_hello(struct shoal *shoal)
{
    report_json(shoal, json_pack("{s:s, s:s, s:i}", "t", "hello", "addr", net_address(shoal->net),
                                 "version", WORKER_PROTOCOL));
}

void report_checkpoint(struct shoal *shoal, uint64_t step)
{
    report_json(shoal, json_pack("{s:s, s:I}", "t", "ckpt", "step", (json_int_t)step));
}

void report_done(struct shoal *shoal)
{
    report_json(shoal, json_pack("{s:s, s:I}", "t", "done", "step", (json_int_t)shoal->job.steps));
}

/* Slot s is bit s: the hex digits read from slot 0 on, so "80" of 8 slots is slot 0 alone. */
static void format_slots(const struct wire_turn *turn, uint32_t member, char *ret_hex)
{
    uint32_t digits = (turn->slot_count + 3) / 4;
    for (uint32_t d = 0; d < digits; d++) {
        uint32_t value = 0;
        for (uint32_t bit = 0; bit < 4; bit++) {
            uint32_t slot = 4 * d + bit;
            value = value << 1 | (slot < turn->slot_count && turn->owner[slot] == member);
        }
        ret_hex[d] = "0123456789abcdef"[value];
    }
    ret_hex[digits] = '\0';
}

static void report_commit(struct shoal *shoal, const struct member_commit *commit)
{
    json_t *workers = json_array();
    for (uint32_t i = 0; i < commit->turn.member_count; i++) {
        char hex[GROUP_SLOTS_MAX / 4 + 1];
        format_slots(&commit->turn, i, hex);
        json_array_append_new(workers, json_pack("{s:I, s:s}", "worker",
                                                 (json_int_t)commit->turn.member[i], "slots", hex));
    }
    double loss = (double)commit->loss;
    json_t *line =
        json_pack("{s:s, s:I, s:I, s:o, s:I, s:I, s:o, s:I}", "t", "progress", "job",
                  (json_int_t)shoal->job.job_id, "step", (json_int_t)commit->step, "loss",
                  isfinite(loss) ? json_real(loss) : json_null(), "generation",
                  (json_int_t)commit->turn.generation, "attempt", (json_int_t)commit->turn.attempt,
                  "workers", workers, "redone_slots", (json_int_t)commit->turn.redone_slots);
    if (line != NULL && commit->not_finite)
        json_object_set_new(
            line, "not_finite",
            json_string(shoal->job.on_nan == SHOAL_NAN_SKIP ? "skipped" : "applied"));
    if (line != NULL && commit->step + 1 == shoal->job.steps) {
        if (shoal->weights_sha256[0] == '\0')
            job_weights_sha256(&shoal->job, shoal->weights_sha256);
        json_object_set_new(line, "weights_sha256", json_string(shoal->weights_sha256));
    }
    report_json(shoal, line);
}

static enum worker_doing doing_of(const struct shoal *shoal)
{
    const struct member *m = shoal->member;
    if (m->exit != 0) return DOING_IDLE;
    if (!m->self.has_state) return DOING_JOIN;
    if (!m->parked) {
        if (shoal->doing == MEMBER_WANT_APPLY || shoal->doing == MEMBER_WANT_PLACE)
            return DOING_APPLY;
        if (shoal->doing == MEMBER_WANT_SAVE) return DOING_CHECKPOINT;
        return m->waits_for_data ? DOING_DATA : DOING_COMPUTE;
    }
    switch ((enum turn_kind)m->turn.kind) {
    case TURN_SYNC:
    case TURN_RECUT:
    case TURN_VOTE:
    case TURN_LOAD: return DOING_SYNC;
    case TURN_SEAL: return DOING_REDUCE;
    case TURN_SAVE: return DOING_CHECKPOINT;
    case TURN_FINISH: return DOING_IDLE;
    case TURN_COMPUTE: break;
    }
    return m->sums_told ? DOING_REDUCE : DOING_COMPUTE;
}

static uint32_t own_slots(const struct member *m)
{
    uint32_t count = 0;
    for (uint32_t slot = 0; slot < m->turn.slot_count; slot++)
        count += m->me != GROUP_NOBODY && m->turn.owner[slot] == m->me;
    return count;
}

static void write_page(struct shoal *shoal)
{
    const struct member *m = shoal->member;
    struct worker_status facts = {
        .job = shoal->job.job_id,
        .worker = shoal->job.worker_id,
        .step = m->self.position,
        .generation = m->last_compute.generation,
        .attempt = m->last_compute.attempt,
        .phase = doing_of(shoal),
    };
    facts.slots_owned = own_slots(m);
    status_write(shoal->page, &facts);
}

/* Tokens of this worker's own slots, so that the workers' figures add up to the job's. */
static void report_stats(struct shoal *shoal)
{
    int64_t now_us = clock_monotonic_us();
    uint64_t step = shoal->member->self.position;
    if (now_us - shoal->told_stats_us < STATS_US) return;
    double seconds = (double)(now_us - shoal->told_stats_us) / 1e6;
    double tokens = (double)(step - shoal->told_stats_step) * own_slots(shoal->member) *
                    shoal->job.samples_per_slot * shoal->job.tokens_per_sample;
    bool first = shoal->told_stats_us == 0 || step < shoal->told_stats_step;
    shoal->told_stats_us = now_us;
    shoal->told_stats_step = step;
    if (!first)
        report_json(shoal, json_pack("{s:s, s:f, s:I}", "t", "stats", "tokens_per_s",
                                     tokens / seconds, "step", (json_int_t)step));
}

static void tell_outvoted(struct shoal *shoal)
{
    uint64_t id;
    while (member_take_outvoted(shoal->member, &id))
        log_line(LOG_WARN, "worker",
                 "the weights of a worker are not those of the others; it gets them anew",
                 "worker=%" PRIu64 " step=%" PRIu64, id, shoal->member->turn.position);
}

static void tell_dispute(struct shoal *shoal)
{
    struct member_dispute d;
    uint64_t first, count;
    if (!member_take_dispute(shoal->member, &d)) return;
    member_mirror_unit(shoal->member, d.unit, &first, &count);
    log_line(LOG_WARN, "worker",
             d.falls_back ? "owner and mirror hold other moments; going back to the newest "
                            "checkpoint, of which they agreed"
                          : "owner and mirror hold other moments, and there are no checkpoints to "
                            "go back to; the mirror takes the owner's",
             "owner=%" PRIu64 " mirror=%" PRIu64 " first=%" PRIu64 " end=%" PRIu64 " step=%" PRIu64,
             d.owner, d.mirror, first, first + count, shoal->member->turn.position);
}

void report_changes(struct shoal *shoal)
{
    struct member *m = shoal->member;
    write_page(shoal);
    tell_outvoted(shoal);
    tell_dispute(shoal);
    report_stall(shoal);
    struct member_commit commit;
    if (shoal->net == NULL) {
        while (member_take_commit(m, &commit)) {} /* nobody to tell */
        return;
    }
    /* The last step's line carries the hash of the final weights, so they must be in place. */
    for (int i = 0; (i < COMMITS_AT_ONCE || m->exit != 0) && member_take_commit(m, &commit); i++)
        report_commit(shoal, &commit);
    if (m->me != GROUP_NOBODY && m->turn.kind == TURN_COMPUTE &&
        m->turn.generation != shoal->joined_generation) {
        shoal->joined_generation = m->turn.generation;
        report_json(shoal, json_pack("{s:s, s:I, s:I}", "t", "joined", "generation",
                                     (json_int_t)m->turn.generation, "step",
                                     (json_int_t)m->turn.position));
    }
    report_stats(shoal);
}

static void take_peers(struct shoal *shoal, json_t *line)
{
    json_t *workers = json_object_get(line, "workers"), *entry;
    size_t index;
    if (!json_is_array(workers)) return;
    net_peers_begin(shoal->net);
    json_array_foreach(workers, index, entry)
    {
        json_t *worker = json_object_get(entry, "worker"), *addr = json_object_get(entry, "addr");
        if (json_is_integer(worker) && json_integer_value(worker) > 0 && json_is_string(addr))
            net_peer_address(shoal->net, (uint64_t)json_integer_value(worker),
                             json_string_value(addr));
    }
    net_peers_end(shoal->net);
}

static void take_told(struct shoal *shoal, json_t *line)
{
    json_t *steps = json_object_get(line, "steps");
    if (json_is_integer(steps) && json_integer_value(steps) >= 0)
        member_told(shoal->member, (uint64_t)json_integer_value(steps));
}

void report_take_line(struct shoal *shoal, const char *text)
{
    json_error_t error;
    json_t *line = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    const char *kind = json_string_value(json_object_get(line, "t"));
    if (kind == NULL)
        log_line(LOG_WARN, "worker", "ignoring a line from the agent that is not a message",
                 "why=\"%s\"", line == NULL ? error.text : "no member t");
    else if (strcmp(kind, "peers") == 0)
        take_peers(shoal, line);
    else if (strcmp(kind, "told") == 0)
        take_told(shoal, line);
    else if (strcmp(kind, "leave") == 0)
        member_leave(shoal->member);
    json_decref(line); /* a notice needs no answer: the agent follows it with leave */
}
