/* Lines to the agent: who holds the group up, and where this worker stands if it is the one. */
#include "base/clock.h"
#include "worker/engine.h"
#include "worker/host.h"
#include "worker/report.h"
#include <jansson.h>
#include <stdio.h>

#define SAMPLE_US    INT64_C(250000)
#define SAMPLE_AT_US INT64_C(500000) /* in one phase, before it is worth asking the kernel */
#define REPEAT_US    INT64_C(1000000)
#define LOOK_US      INT64_C(20000) /* verdicts change every 100 ms at most */

/* How much of the time in this phase the thread had a processor, from the samples taken in it. */
static void sample_host(struct shoal *shoal, int64_t now_us)
{
    struct stall_reports *own = &shoal->stalls;
    struct recorder *recorder = shoal->member->config.recorder;
    const struct record *last = recorder_last(recorder, 0);
    if (last == NULL || now_us - own->sampled_us < SAMPLE_US) return;
    if (now_us - last->entered_us < SAMPLE_AT_US || shoal->member->parked) return;
    own->sampled_us = now_us;
    struct host_view view;
    if (!host_look(&view)) return;
    if (own->sampled_sequence != recorder->sequence) {
        own->sampled_sequence = recorder->sequence;
        own->first_sample_us = now_us;
        own->first_cpu_us = view.cpu_us;
        recorder_host(recorder, view.host, (uint32_t)(now_us - last->entered_us));
        return; /* no share yet: busy until shown otherwise */
    }
    int64_t wall_us = now_us - own->first_sample_us, used_us = view.cpu_us - own->first_cpu_us;
    int64_t in_us = now_us - last->entered_us;
    int64_t cpu_us = wall_us <= 0 ? in_us : used_us * in_us / wall_us;
    if (cpu_us > in_us) cpu_us = in_us;
    recorder_host(recorder, view.host, cpu_us > UINT32_MAX ? UINT32_MAX : (uint32_t)cpu_us);
}

static json_t *culprit_json(const struct diagnose_culprit *culprit, uint64_t worker, uint64_t peer,
                            bool dropped)
{
    return json_pack(
        "{s:I, s:s, s:b, s:I, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:b}", "worker",
        (json_int_t)worker, "kind", diagnose_kind_name(culprit->kind), "slow", culprit->slow,
        "peer", (json_int_t)peer, "phase", record_phase_name(culprit->phase), "host",
        record_host_name(culprit->host), "slot", (json_int_t)culprit->detail, "step",
        (json_int_t)culprit->step, "for_us", (json_int_t)culprit->since_us, "usual_us",
        (json_int_t)culprit->usual_us, "cpu_us", (json_int_t)culprit->cpu_us, "dropped", dropped);
}

static void add_culprits(const struct member *m, json_t *culprits)
{
    const struct diagnose_verdict *verdict = &m->verdict;
    for (uint32_t i = 0; m->verdict_key != 0 && i < verdict->culprit_count; i++) {
        const struct diagnose_culprit *culprit = &verdict->culprit[i];
        uint64_t worker = m->judged[culprit->rank];
        uint64_t peer = culprit->kind == DIAGNOSE_LINK ? m->judged[culprit->peer] : 0;
        if (!member_is_left_out(m, worker)) /* else below */
            json_array_append_new(culprits, culprit_json(culprit, worker, peer, false));
    }
    uint64_t worker;
    struct diagnose_rank rank;
    for (uint32_t at = 0; member_next_left_out(m, &at, &worker, &rank);) {
        const struct diagnose_culprit culprit = {.kind = diagnose_kind_of_late(&rank),
                                                 .phase = rank.told.phase,
                                                 .host = rank.told.host,
                                                 .detail = rank.told.detail,
                                                 .step = rank.told.step,
                                                 .since_us = rank.told.in_phase_us + rank.age_us,
                                                 .usual_us = rank.told.usual_us,
                                                 .cpu_us = rank.told.cpu_us};
        json_array_append_new(culprits, culprit_json(&culprit, worker, 0, true));
    }
}

static void send_stall(struct shoal *shoal)
{
    const struct member *m = shoal->member;
    const struct diagnose_verdict *verdict = &m->verdict;
    bool stands = m->verdict_key != 0;
    json_t *culprits = json_array();
    uint32_t victims = 0;
    for (uint64_t mask = stands ? verdict->victims : 0; mask != 0; mask &= mask - 1) victims++;
    add_culprits(m, culprits);
    report_json(shoal, json_pack("{s:s, s:I, s:b, s:I, s:I, s:I, s:o}", "t", "stall", "step",
                                 (json_int_t)(stands ? verdict->step : member_step(m)), "stalled",
                                 stands && verdict->stalled, "waited_us",
                                 (json_int_t)(stands ? verdict->waited_us : 0), "victims",
                                 (json_int_t)victims, "workers", (json_int_t)m->input.count,
                                 "culprits", culprits));
}

/* The verdict goes out when it settles, is repeated while it stands, and is taken back. */
static void tell_verdict(struct shoal *shoal, int64_t now_us)
{
    struct stall_reports *own = &shoal->stalls;
    bool speaks = member_speaks_of_stall(shoal->member);
    if (speaks &&
        (own->told_key != shoal->member->verdict_key || now_us - own->told_us >= REPEAT_US)) {
        own->told_key = shoal->member->verdict_key;
        own->told_us = now_us;
        send_stall(shoal);
    } else if (!speaks && own->told_key != 0) {
        own->told_key = 0;
        report_json(shoal,
                    json_pack("{s:s, s:I, s:b, s:[]}", "t", "stall", "step",
                              (json_int_t)member_step(shoal->member), "stalled", 0, "culprits"));
    }
}

static bool is_own_fault(const struct member *m)
{
    for (uint32_t i = 0; m->verdict_key != 0 && i < m->verdict.culprit_count; i++) {
        const struct diagnose_culprit *culprit = &m->verdict.culprit[i];
        bool own_work = culprit->kind == DIAGNOSE_HOST || culprit->kind == DIAGNOSE_DATA ||
                        culprit->kind == DIAGNOSE_COMPUTE || culprit->kind == DIAGNOSE_STORAGE;
        if (culprit->rank == m->input.me && own_work && !culprit->slow) return true;
    }
    return false;
}

/* Names of files may hold any bytes; JSON takes UTF-8 alone. */
static json_t *clean_text(char *text)
{
    for (char *at = text; *at != '\0'; at++)
        if ((unsigned char)*at >= 0x80 || (*at < ' ' && *at != '\n')) *at = '?';
    return json_string(text);
}

/* Where this worker's program stands: once when it is found to hold up the others, taken back when
 * it moves. */
static void tell_stack(struct shoal *shoal)
{
    struct stall_reports *own = &shoal->stalls;
    uint64_t sequence = shoal->member->config.recorder->sequence;
    char text[HOST_TEXT_BYTES];
    if (is_own_fault(shoal->member) && own->captured_sequence != sequence && host_capture())
        own->captured_sequence = sequence;
    struct host_view view;
    if (host_take_capture(text) && own->captured_sequence == sequence && host_look(&view)) {
        own->stack_told = true;
        const char state[2] = {view.state, '\0'};
        report_json(shoal,
                    json_pack("{s:s, s:s, s:s, s:s, s:o}", "t", "stack", "state", state, "call",
                              view.call, "wchan", view.wchan, "stack", clean_text(text)));
    }
    if (own->stack_told && own->captured_sequence != sequence) {
        own->stack_told = false;
        report_json(shoal, json_pack("{s:s, s:s, s:s, s:s, s:s}", "t", "stack", "state", "", "call",
                                     "", "wchan", "", "stack", ""));
    }
}

void report_stall(struct shoal *shoal)
{
    int64_t now_us = clock_monotonic_us();
    member_record(shoal->member, now_us);
    if (shoal->net == NULL) return; /* alone, and nobody to tell */
    sample_host(shoal, now_us);
    if (now_us - shoal->stalls.looked_us < LOOK_US) return; /* this runs for every frame */
    shoal->stalls.looked_us = now_us;
    tell_verdict(shoal, now_us);
    tell_stack(shoal);
}
