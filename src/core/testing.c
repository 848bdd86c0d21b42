#include "core/testing.h"

void bench_open(struct bench *b, const struct pool_limits *limits)
{
    *b = (struct bench){.now_us = SECOND_US};
    pool_config_default(&b->config);
    b->config.limits = limits != NULL ? *limits
                                      : (struct pool_limits){.nodes_max = 64,
                                                             .jobs_max = 64,
                                                             .offers_max = 32,
                                                             .models_max = 8,
                                                             .pools_max = 4,
                                                             .leases_max = 128};
    size_t bytes = pool_size(&b->config.limits);
    b->memory = malloc(bytes);
    assert_non_null(b->memory);
    memset(b->memory, 0xA5, bytes); /* whatever the core forgets to set shows */
    b->p = pool_init(b->memory, bytes, &b->config);
    bench_class(b, JOB_CLASS_P0, 1000000, 0, 1U << JOB_CLASS_P2 | 1U << JOB_CLASS_P3,
                /* preemptible */ false, /* queues */ true);
}

void bench_class(struct bench *b, uint32_t job_class, uint32_t reserved_ppm, uint32_t burst_ppm,
                 uint32_t may_preempt_mask, bool preemptible, bool queues)
{
    bench_step(b, (struct pool_event){.kind = POOL_EVENT_CLASS_DEFINED,
                                      .u.class_defined = {.job_class = job_class,
                                                          .reserved_ppm = reserved_ppm,
                                                          .burst_ppm = burst_ppm,
                                                          .may_preempt_mask = may_preempt_mask,
                                                          .preemptible = preemptible,
                                                          .queues = queues}});
}

void bench_strict_classes(struct bench *b)
{
    bench_class(b, JOB_CLASS_P0, 1000000, 0, 1U << JOB_CLASS_P2 | 1U << JOB_CLASS_P3, false, false);
}

void bench_close(struct bench *b)
{
    free(b->memory);
}

static void check_totals(const struct bench *b)
{
    struct pool_totals totals;
    pool_totals_read(b->p, &totals);
    assert_int_equal(totals.usd_micros_jobs, b->entered_usd_micros[ENTRY_JOB]);
    assert_int_equal(totals.usd_micros_overhead, b->entered_usd_micros[ENTRY_OVERHEAD]);
    assert_int_equal(totals.usd_micros_idle, b->entered_usd_micros[ENTRY_IDLE]);
    assert_int_equal(totals.usd_micros_adjustment, b->entered_usd_micros[ENTRY_ADJUSTMENT]);
}

void bench_step(struct bench *b, struct pool_event event)
{
    event.seq = ++b->seq;
    event.version = POOL_CORE_VERSION;
    event.now_us = b->now_us;
    const char *sentence = pool_event_check(&event);
    if (sentence != NULL) fail_msg("%s", sentence);
    pool_step(b->p, &event, &b->out);
    for (uint32_t i = 0; i < b->out.entry_count; i++)
        b->entered_usd_micros[b->out.entries[i].kind] += b->out.entries[i].usd_micros;
    for (uint32_t i = 0; i < b->out.decision_count; i++)
        b->said[b->out.decisions[i].kind][b->out.decisions[i].reason]++;
    for (uint32_t i = 0; i < b->out.command_count; i++) b->asked[b->out.commands[i].kind]++;
    check_totals(b);
    pool_check(b->p);
}

void bench_tick(struct bench *b)
{
    bench_step(b, (struct pool_event){.kind = POOL_EVENT_TICK});
}

void bench_advance(struct bench *b, int64_t duration_us)
{
    int64_t end_us = b->now_us + duration_us;
    for (uint32_t i = 0; pool_next_wake_us(b->p) <= end_us; i++) {
        assert_true(i < 100000); /* a pool that always wants to be woken never rests */
        if (pool_next_wake_us(b->p) > b->now_us) b->now_us = pool_next_wake_us(b->p);
        bench_tick(b);
    }
    b->now_us = end_us;
}

void bench_model(struct bench *b, uint32_t model, uint32_t ncu_milli, uint32_t vram_gib,
                 uint64_t capability_mask)
{
    bench_step(b, (struct pool_event){.kind = POOL_EVENT_MODEL_DEFINED,
                                      .u.model_defined = {.model = model,
                                                          .ncu_milli = ncu_milli,
                                                          .vram_mib = vram_gib * 1024,
                                                          .capability_mask = capability_mask}});
}

void bench_offer(struct bench *b, struct test_offer offer)
{
    bench_step(b, (struct pool_event){
                      .kind = POOL_EVENT_OFFER_CHANGED,
                      .u.offer_changed = {.offer_id = offer.id,
                                          .usd_micros_per_hour = offer.price,
                                          .on_demand_usd_micros_per_hour = offer.on_demand,
                                          .provider = 1,
                                          .region = offer.region,
                                          .zone = offer.zone != 0 ? offer.zone : offer.region * 10,
                                          .rack = offer.rack,
                                          .model = offer.model,
                                          .capacity = offer.capacity,
                                          .device_count = offer.devices,
                                          .stock_count = offer.stock,
                                          .billing_s = offer.billing_s}});
}

void bench_terms(struct bench *b, uint64_t terms_id, struct job_terms terms)
{
    bench_step(b, (struct pool_event){.kind = POOL_EVENT_TERMS_DEFINED,
                                      .u.terms_defined = {.terms_id = terms_id, .terms = terms}});
}

void bench_submit(struct bench *b, struct test_job job)
{
    bench_step(
        b, (struct pool_event){
               .kind = POOL_EVENT_JOB_SUBMITTED,
               .u.job_submitted = {.job_id = job.id,
                                   .spec_hash = job.id * 7,
                                   .capability_mask = job.capability_mask,
                                   .pool_mask = job.pool_mask,
                                   .budget_usd_micros_per_hour = job.budget_per_hour,
                                   .budget_usd_micros = job.budget,
                                   .vram_min_mib = job.vram_gib * 1024,
                                   .devices_min = job.min,
                                   .devices_max = job.max,
                                   .tenant = 1,
                                   .project = 2,
                                   .team = 3,
                                   .experiment = 4,
                                   .price_threshold_ppm = job.threshold_ppm,
                                   .region = job.region,
                                   .job_class = (uint8_t)job.job_class,
                                   .kind = (uint8_t)(job.kind == 0 ? JOB_KIND_ELASTIC : job.kind),
                                   .capacity_mask = (uint8_t)job.capacity_mask,
                                   .terms_id = job.terms_id}});
}

void bench_node(struct bench *b, uint64_t node_key, uint32_t phase)
{
    bench_node_full(b, node_key, phase, NODE_REASON_NONE, /* notice_us */ 0, TEST_NEVER_BILLED);
}

void bench_node_full(struct bench *b, uint64_t node_key, uint32_t phase, uint32_t reason,
                     int64_t notice_us, int64_t billed_usd_micros)
{
    bench_step(b, (struct pool_event){.kind = POOL_EVENT_NODE_OBSERVED,
                                      .u.node_observed = {.node_key = node_key,
                                                          .phase = phase,
                                                          .reason = reason,
                                                          .notice_us = notice_us,
                                                          .billed_usd_micros = billed_usd_micros}});
}

void bench_agent(struct bench *b, uint64_t node_key)
{
    bench_step(b, (struct pool_event){.kind = POOL_EVENT_AGENT_REPORTED,
                                      .u.agent_reported = {.node_key = node_key,
                                                           .phase = AGENT_PHASE_JOINED,
                                                           .groups = b->groups}});
}

void bench_worker(struct bench *b, uint64_t node_key, uint64_t job_id, uint64_t worker_id,
                  uint32_t phase, uint64_t step)
{
    bench_step(b, (struct pool_event){.kind = POOL_EVENT_WORKER_REPORTED,
                                      .u.worker_reported = {.node_key = node_key,
                                                            .job_id = job_id,
                                                            .worker_id = worker_id,
                                                            .step = step,
                                                            .phase = phase}});
}

void bench_cancel(struct bench *b, uint64_t job_id)
{
    bench_step(b, (struct pool_event){.kind = POOL_EVENT_JOB_CANCELLED,
                                      .u.job_cancelled = {.job_id = job_id}});
}

const struct pool_command *bench_command(const struct bench *b, uint32_t kind, uint32_t nth)
{
    for (uint32_t i = 0; i < b->out.command_count; i++)
        if (b->out.commands[i].kind == kind && nth-- == 0) return &b->out.commands[i];
    return NULL;
}

uint32_t bench_count(const struct bench *b, uint32_t kind)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < b->out.command_count; i++) count += b->out.commands[i].kind == kind;
    return count;
}

const struct pool_decision *bench_decision(const struct bench *b, uint32_t kind, uint32_t reason)
{
    for (uint32_t i = 0; i < b->out.decision_count; i++)
        if (b->out.decisions[i].kind == kind && b->out.decisions[i].reason == reason)
            return &b->out.decisions[i];
    return NULL;
}

uint32_t bench_job_state(const struct bench *b, uint64_t job_id)
{
    struct job_view view;
    return pool_job_find(b->p, job_id, &view) ? view.state : 0;
}

void bench_raise(struct bench *b)
{
    struct node_view n;
    for (uint32_t i = 0; i < pool_nodes_end(b->p); i++) {
        if (!pool_node_at(b->p, i, &n)) continue;
        if (n.state == NODE_ORDERED) bench_node(b, n.node_key, NODE_PHASE_UP);
        if (n.state == NODE_ORDERED || n.state == NODE_BOOTING) bench_agent(b, n.node_key);
    }
}

void bench_live(struct bench *b, int64_t duration_us)
{
    struct node_view n;
    int64_t end_us = b->now_us + duration_us;
    while (b->now_us < end_us) {
        bench_advance(b, end_us - b->now_us < 5 * SECOND_US ? end_us - b->now_us : 5 * SECOND_US);
        for (uint32_t i = 0; i < pool_nodes_end(b->p); i++)
            if (pool_node_at(b->p, i, &n) && n.agent_joined) bench_agent(b, n.node_key);
    }
}

uint32_t bench_nodes(const struct bench *b, uint32_t state, uint64_t *ret_first_key)
{
    struct node_view n;
    uint32_t count = 0;
    for (uint32_t i = 0; i < pool_nodes_end(b->p); i++) {
        if (!pool_node_at(b->p, i, &n) || n.state != state) continue;
        if (count++ == 0 && ret_first_key != NULL) *ret_first_key = n.node_key;
    }
    return count;
}

bool bench_lease(const struct bench *b, uint64_t job_id, uint32_t nth, struct lease_view *ret_view)
{
    for (uint32_t i = 0; i < pool_leases_end(b->p); i++)
        if (pool_lease_at(b->p, i, ret_view) && ret_view->job_id == job_id && nth-- == 0)
            return true;
    return false;
}
