#include "codec/record.h"
#include "core/assert.h"
#include <stdbool.h>
#include <string.h>

#include <xxhash.h>

/* One walk for both directions: with `out` the fields are written, without they are read. So the
 * two can never disagree about the order. */
struct walk {
    uint8_t *out;      /* encoding, else NULL */
    const uint8_t *in; /* decoding, else NULL */
    uint32_t at;
};

static uint64_t walk_bits(struct walk *walk, uint64_t value, uint32_t bytes)
{
    ASSERT(walk->at + bytes <= RECORD_BYTES);
    uint64_t read = 0;
    for (uint32_t i = 0; i < bytes; i++) {
        if (walk->out != NULL)
            walk->out[walk->at + i] = (uint8_t)(value >> (8 * i));
        else
            read |= (uint64_t)walk->in[walk->at + i] << (8 * i);
    }
    walk->at += bytes;
    return walk->out != NULL ? value : read;
}

static void walk_u64(struct walk *walk, uint64_t *field)
{
    *field = walk_bits(walk, *field, 8);
}

static void walk_i64(struct walk *walk, int64_t *field)
{
    *field = (int64_t)walk_bits(walk, (uint64_t)*field, 8);
}

static void walk_u32(struct walk *walk, uint32_t *field)
{
    *field = (uint32_t)walk_bits(walk, *field, 4);
}

static void walk_i32(struct walk *walk, int32_t *field)
{
    *field = (int32_t)(uint32_t)walk_bits(walk, (uint32_t)*field, 4);
}

static void walk_u8(struct walk *walk, uint8_t *field)
{
    *field = (uint8_t)walk_bits(walk, *field, 1);
}

static void walk_model_defined(struct walk *walk, struct pool_event *e)
{
    walk_u64(walk, &e->u.model_defined.capability_mask);
    walk_u32(walk, &e->u.model_defined.model);
    walk_u32(walk, &e->u.model_defined.ncu_milli);
    walk_u32(walk, &e->u.model_defined.vram_mib);
    walk_u32(walk, &e->u.model_defined.mig_slices);
}

static void walk_pool_defined(struct walk *walk, struct pool_event *e)
{
    walk_u64(walk, &e->u.pool_defined.capability_mask);
    walk_u64(walk, &e->u.pool_defined.hardware_mask);
    walk_u32(walk, &e->u.pool_defined.pool);
    walk_u32(walk, &e->u.pool_defined.vram_min_mib);
    walk_u32(walk, &e->u.pool_defined.price_threshold_ppm);
    walk_u32(walk, &e->u.pool_defined.reserved);
}

static void walk_offer_changed(struct walk *walk, struct pool_event *e)
{
    walk_u64(walk, &e->u.offer_changed.offer_id);
    walk_i64(walk, &e->u.offer_changed.usd_micros_per_hour);
    walk_i64(walk, &e->u.offer_changed.on_demand_usd_micros_per_hour);
    walk_u32(walk, &e->u.offer_changed.provider);
    walk_u32(walk, &e->u.offer_changed.region);
    walk_u32(walk, &e->u.offer_changed.zone);
    walk_u32(walk, &e->u.offer_changed.model);
    walk_u32(walk, &e->u.offer_changed.capacity);
    walk_u32(walk, &e->u.offer_changed.device_count);
    walk_u32(walk, &e->u.offer_changed.stock_count);
    walk_u32(walk, &e->u.offer_changed.hazard_ppm);
    walk_u32(walk, &e->u.offer_changed.host_cpu_milli);
    walk_u32(walk, &e->u.offer_changed.host_memory_mib);
    walk_u32(walk, &e->u.offer_changed.rack);
    walk_u32(walk, &e->u.offer_changed.billing_s);
}

static void walk_job_submitted(struct walk *walk, struct pool_event *e)
{
    walk_u64(walk, &e->u.job_submitted.job_id);
    walk_u64(walk, &e->u.job_submitted.spec_hash);
    walk_u64(walk, &e->u.job_submitted.capability_mask);
    walk_u64(walk, &e->u.job_submitted.pool_mask);
    walk_i64(walk, &e->u.job_submitted.budget_usd_micros_per_hour);
    walk_i64(walk, &e->u.job_submitted.budget_usd_micros);
    walk_u32(walk, &e->u.job_submitted.vram_min_mib);
    walk_u32(walk, &e->u.job_submitted.devices_min);
    walk_u32(walk, &e->u.job_submitted.devices_max);
    walk_u32(walk, &e->u.job_submitted.tenant);
    walk_u32(walk, &e->u.job_submitted.project);
    walk_u32(walk, &e->u.job_submitted.team);
    walk_u32(walk, &e->u.job_submitted.experiment);
    walk_u32(walk, &e->u.job_submitted.price_threshold_ppm);
    walk_u32(walk, &e->u.job_submitted.region);
    walk_u8(walk, &e->u.job_submitted.job_class);
    walk_u8(walk, &e->u.job_submitted.kind);
    walk_u8(walk, &e->u.job_submitted.capacity_mask);
    walk_u8(walk, &e->u.job_submitted.reserved);
    walk_u64(walk, &e->u.job_submitted.terms_id);
    walk_u32(walk, &e->u.job_submitted.user);
    walk_u32(walk, &e->u.job_submitted.reserved_word);
}

static void walk_account_defined(struct walk *walk, struct pool_event *e)
{
    for (uint32_t i = 0; i < ACCOUNT_LEVELS; i++) walk_u32(walk, &e->u.account_defined.names[i]);
    for (uint32_t kind = 0; kind < QUOTA_KINDS; kind++) {
        walk_i64(walk, &e->u.account_defined.quota_milli[kind]);
        walk_i64(walk, &e->u.account_defined.borrow_milli[kind]);
        walk_i64(walk, &e->u.account_defined.lend_milli[kind]);
    }
    for (uint32_t i = 0; i < QUOTA_PERIODS; i++)
        walk_i64(walk, &e->u.account_defined.usd_micros_max[i]);
    walk_i64(walk, &e->u.account_defined.usd_micros_per_hour_max);
    walk_u32(walk, &e->u.account_defined.weight_milli);
    walk_u32(walk, &e->u.account_defined.jobs_max);
    walk_u32(walk, &e->u.account_defined.workers_max);
    walk_u32(walk, &e->u.account_defined.submissions_per_minute_max);
}

static void walk_quota_model(struct walk *walk, struct pool_event *e)
{
    walk_u32(walk, &e->u.quota_model_defined.model);
    walk_u32(walk, &e->u.quota_model_defined.kind);
    walk_u32(walk, &e->u.quota_model_defined.weight_milli);
    walk_u32(walk, &e->u.quota_model_defined.reserved);
}

static void walk_node_observed(struct walk *walk, struct pool_event *e)
{
    walk_u64(walk, &e->u.node_observed.node_key);
    walk_i64(walk, &e->u.node_observed.notice_us);
    walk_i64(walk, &e->u.node_observed.up_since_us);
    walk_i64(walk, &e->u.node_observed.billed_usd_micros);
    walk_u32(walk, &e->u.node_observed.phase);
    walk_u32(walk, &e->u.node_observed.reason);
}

static void walk_agent_reported(struct walk *walk, struct pool_event *e)
{
    walk_u64(walk, &e->u.agent_reported.node_key);
    walk_u32(walk, &e->u.agent_reported.phase);
    walk_u32(walk, &e->u.agent_reported.device_count);
    walk_u32(walk, &e->u.agent_reported.model);
    walk_u32(walk, &e->u.agent_reported.rack);
    walk_u32(walk, &e->u.agent_reported.groups.form);
    for (uint32_t i = 0; i < DEVICE_GROUPS_DEVICES / 2; i++) {
        walk_u8(walk, &e->u.agent_reported.groups.nvlink[i]);
        walk_u8(walk, &e->u.agent_reported.groups.pcie[i]);
        walk_u8(walk, &e->u.agent_reported.groups.numa[i]);
    }
}

static void walk_worker_reported(struct walk *walk, struct pool_event *e)
{
    walk_u64(walk, &e->u.worker_reported.node_key);
    walk_u64(walk, &e->u.worker_reported.job_id);
    walk_u64(walk, &e->u.worker_reported.worker_id);
    walk_u64(walk, &e->u.worker_reported.step);
    walk_u32(walk, &e->u.worker_reported.phase);
    walk_i32(walk, &e->u.worker_reported.exit_code);
}

static void walk_worker_stalled(struct walk *walk, struct pool_event *e)
{
    walk_u64(walk, &e->u.worker_stalled.job_id);
    walk_u64(walk, &e->u.worker_stalled.node_key);
    walk_u64(walk, &e->u.worker_stalled.worker_id);
    walk_u64(walk, &e->u.worker_stalled.step);
    walk_u64(walk, &e->u.worker_stalled.peer_id);
    walk_i64(walk, &e->u.worker_stalled.lasted_us);
    walk_u32(walk, &e->u.worker_stalled.kind);
    walk_u32(walk, &e->u.worker_stalled.slow_ppm);
}

static void walk_terms_defined(struct walk *walk, struct pool_event *e)
{
    struct job_terms *t = &e->u.terms_defined.terms;
    walk_u64(walk, &e->u.terms_defined.terms_id);
    walk_i64(walk, &t->run_us);
    walk_i64(walk, &t->notice_us);
    walk_i64(walk, &t->ckpt_interval_us);
    walk_u64(walk, &t->data_bytes);
    walk_u32(walk, &t->data_region);
    walk_u32(walk, &t->device_milli);
    walk_u32(walk, &t->device_memory_mib);
    walk_u32(walk, &t->mig_profile);
    walk_u32(walk, &t->host_cpu_milli);
    walk_u32(walk, &t->host_memory_mib);
    walk_u32(walk, &t->ncu_milli);
    walk_u8(walk, &t->topology_required);
    walk_u8(walk, &t->topology_preferred);
    walk_u8(walk, &t->degrade);
    walk_u8(walk, &t->affinity);
    walk_u8(walk, &t->spread);
    walk_u8(walk, &t->gate);
    walk_u8(walk, &t->host_only);
    walk_u8(walk, &t->reserved_byte);
    walk_u32(walk, &t->steps_total);
    walk_u64(walk, &t->work_id);
    walk_i64(walk, &t->deadline_us);
}

static void walk_rate_told(struct walk *walk, struct pool_event *e)
{
    walk_u64(walk, &e->u.rate_told.work_id);
    walk_u64(walk, &e->u.rate_told.rate_micro);
    walk_u32(walk, &e->u.rate_told.model);
    walk_u32(walk, &e->u.rate_told.source);
}

static void walk_matching_defined(struct walk *walk, struct pool_event *e)
{
    walk_i64(walk, &e->u.matching_defined.round_us);
    walk_i64(walk, &e->u.matching_defined.restart_us);
}

static void walk_class_defined(struct walk *walk, struct pool_event *e)
{
    walk_u32(walk, &e->u.class_defined.job_class);
    walk_u32(walk, &e->u.class_defined.reserved_ppm);
    walk_u32(walk, &e->u.class_defined.burst_ppm);
    walk_u32(walk, &e->u.class_defined.may_preempt_mask);
    walk_u32(walk, &e->u.class_defined.preemptible);
    walk_u32(walk, &e->u.class_defined.queues);
}

/* All of them, also those beyond the count: they are 0. */
static void walk_offers_priced(struct walk *walk, struct pool_event *e)
{
    walk_u32(walk, &e->u.offers_priced.count);
    walk_u32(walk, &e->u.offers_priced.more);
    for (uint32_t i = 0; i < PRICED_MAX; i++) {
        walk_u64(walk, &e->u.offers_priced.prices[i].offer_id);
        walk_i64(walk, &e->u.offers_priced.prices[i].usd_micros_per_hour);
    }
}

static void walk_links_told(struct walk *walk, struct pool_event *e)
{
    walk_u32(walk, &e->u.links_told.from);
    walk_u32(walk, &e->u.links_told.count);
    for (uint32_t i = 0; i < LINKS_TOLD_MAX; i++) {
        walk_u32(walk, &e->u.links_told.links[i].to);
        walk_u32(walk, &e->u.links_told.links[i].usd_micros_per_gb);
        walk_u32(walk, &e->u.links_told.links[i].mb_per_s);
    }
}

static void walk_gate_defined(struct walk *walk, struct pool_event *e)
{
    walk_u32(walk, &e->u.gate_defined.scope);
    walk_u32(walk, &e->u.gate_defined.index);
    for (uint32_t i = 0; i < ACCOUNT_LEVELS; i++) walk_u32(walk, &e->u.gate_defined.names[i]);
    walk_i64(walk, &e->u.gate_defined.usd_micros_per_hour_max);
    walk_i64(walk, &e->u.gate_defined.usd_micros_per_job_max);
    walk_i64(walk, &e->u.gate_defined.usd_micros_per_month_max);
    walk_u32(walk, &e->u.gate_defined.refuses);
    walk_u32(walk, &e->u.gate_defined.reserved);
}

static void walk_buying_defined(struct walk *walk, struct pool_event *e)
{
    walk_u32(walk, &e->u.buying_defined.scope);
    walk_u32(walk, &e->u.buying_defined.index);
    walk_u32(walk, &e->u.buying_defined.policy);
    walk_u32(walk, &e->u.buying_defined.price_threshold_ppm);
    walk_i64(walk, &e->u.buying_defined.device_usd_micros_max);
    walk_i64(walk, &e->u.buying_defined.bid_usd_micros);
}

static void walk_offers_ranked(struct walk *walk, struct pool_event *e)
{
    walk_u32(walk, &e->u.offers_ranked.count);
    walk_u32(walk, &e->u.offers_ranked.state);
    for (uint32_t i = 0; i < RANKED_MAX; i++) {
        walk_u64(walk, &e->u.offers_ranked.ranks[i].offer_id);
        walk_u32(walk, &e->u.offers_ranked.ranks[i].factor_ppm);
        walk_u32(walk, &e->u.offers_ranked.ranks[i].beside);
    }
}

/* false: no such kind */
static bool walk_body(struct walk *walk, struct pool_event *e)
{
    switch ((enum pool_event_kind)e->kind) {
    case POOL_EVENT_TICK:
    case POOL_EVENT_RESTARTED: return true;
    case POOL_EVENT_MODEL_DEFINED: walk_model_defined(walk, e); return true;
    case POOL_EVENT_POOL_DEFINED: walk_pool_defined(walk, e); return true;
    case POOL_EVENT_OFFER_CHANGED: walk_offer_changed(walk, e); return true;
    case POOL_EVENT_JOB_SUBMITTED: walk_job_submitted(walk, e); return true;
    case POOL_EVENT_JOB_CANCELLED: walk_u64(walk, &e->u.job_cancelled.job_id); return true;
    case POOL_EVENT_NODE_OBSERVED: walk_node_observed(walk, e); return true;
    case POOL_EVENT_AGENT_REPORTED: walk_agent_reported(walk, e); return true;
    case POOL_EVENT_WORKER_REPORTED: walk_worker_reported(walk, e); return true;
    case POOL_EVENT_CKPT_DURABLE:
        walk_u64(walk, &e->u.ckpt_durable.job_id);
        walk_u64(walk, &e->u.ckpt_durable.step);
        return true;
    case POOL_EVENT_NODE_DRAIN_ASKED: walk_u64(walk, &e->u.node_drain_asked.node_key); return true;
    case POOL_EVENT_WORKER_STALLED: walk_worker_stalled(walk, e); return true;
    case POOL_EVENT_TERMS_DEFINED: walk_terms_defined(walk, e); return true;
    case POOL_EVENT_ACCOUNT_DEFINED: walk_account_defined(walk, e); return true;
    case POOL_EVENT_QUOTA_MODEL_DEFINED: walk_quota_model(walk, e); return true;
    case POOL_EVENT_CLASS_DEFINED: walk_class_defined(walk, e); return true;
    case POOL_EVENT_GATE_DEFINED: walk_gate_defined(walk, e); return true;
    case POOL_EVENT_LINKS_TOLD: walk_links_told(walk, e); return true;
    case POOL_EVENT_BUYING_DEFINED: walk_buying_defined(walk, e); return true;
    case POOL_EVENT_OFFERS_RANKED: walk_offers_ranked(walk, e); return true;
    case POOL_EVENT_OFFERS_PRICED: walk_offers_priced(walk, e); return true;
    case POOL_EVENT_RATE_TOLD: walk_rate_told(walk, e); return true;
    case POOL_EVENT_MATCHING_DEFINED: walk_matching_defined(walk, e); return true;
    case POOL_EVENT_KIND_END: return false;
    }
    return false;
}

static bool walk_event(struct walk *walk, struct pool_event *e)
{
    walk_u64(walk, &e->seq);
    walk_i64(walk, &e->now_us);
    walk_u32(walk, &e->kind);
    walk_u32(walk, &e->version);
    return walk_body(walk, e);
}

void record_encode(const struct pool_event *event, uint8_t ret_bytes[RECORD_BYTES])
{
    struct pool_event copy =
        *event; /* the walk takes fields by pointer; it leaves them as they are */
    memset(ret_bytes, 0, RECORD_BYTES);
    bool known = walk_event(&(struct walk){.out = ret_bytes}, &copy);
    ASSERT(known);
}

uint32_t record_version(const uint8_t bytes[RECORD_BYTES])
{
    struct pool_event event = {0};
    (void)walk_event(&(struct walk){.in = bytes}, &event);
    return event.version;
}

const char *record_decode(const uint8_t bytes[RECORD_BYTES], struct pool_event *ret_event)
{
    struct pool_event event = {0};
    struct walk walk = {.in = bytes};
    bool known = walk_event(&walk, &event);
    if (event.version != POOL_CORE_VERSION)
        return "the record was written by another version of the core";
    if (!known) return "the record is of an unknown kind";
    for (uint32_t i = walk.at; i < RECORD_BYTES; i++)
        if (bytes[i] != 0) return "the record has data where its kind has none";
    *ret_event = event;
    return NULL;
}

void record_encode_summed(const struct pool_event *event, uint8_t ret_bytes[RECORD_SUMMED_BYTES])
{
    record_encode(event, ret_bytes);
    uint64_t sum = XXH3_64bits(ret_bytes, RECORD_BYTES);
    for (uint32_t i = 0; i < 8; i++) ret_bytes[RECORD_BYTES + i] = (uint8_t)(sum >> (8 * i));
}

const char *record_decode_summed(const uint8_t bytes[RECORD_SUMMED_BYTES],
                                 struct pool_event *ret_event)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < 8; i++) sum |= (uint64_t)bytes[RECORD_BYTES + i] << (8 * i);
    if (sum != XXH3_64bits(bytes, RECORD_BYTES)) return "the record is torn: its sum is wrong";
    return record_decode(bytes, ret_event);
}
