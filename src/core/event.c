/* Is an event well formed? Total on arbitrary bytes; the sentences go to whoever sent it. */
#include "core/event.h"
#include "core/island.h"
#include "core/limits.h"
#include "core/mig.h"
#include "core/ncu_mix.h"
#include "core/part.h"
#include "core/pool.h"

static bool is_price(int64_t usd_micros)
{
    return usd_micros >= 0 && usd_micros <= PRICE_MAX;
}

static bool is_time(int64_t us)
{
    return us >= 0 && us <= TIME_US_MAX;
}

static const char *check_model(const struct pool_event *event)
{
    if (event->u.model_defined.ncu_milli == 0 || event->u.model_defined.ncu_milli > NCU_MILLI_MAX)
        return "model: ncu must be above 0 and at most 1000";
    uint32_t slices = event->u.model_defined.mig_slices;
    return slices != 0 && mig_geometry_of(slices) == NULL
               ? "model: no MIG geometry has so many slices"
               : NULL;
}

static const char *check_pool(const struct pool_event *event)
{
    if (event->u.pool_defined.price_threshold_ppm > THRESHOLD_PPM_MAX)
        return "pool: price_threshold is above 10, ten times the on-demand price";
    return event->u.pool_defined.reserved != 0 ? "pool: reserved field is not 0" : NULL;
}

static const char *check_offer(const struct pool_event *event)
{
    if (event->u.offer_changed.offer_id == 0) return "offer: id 0 means none, use another";
    if (!is_price(event->u.offer_changed.usd_micros_per_hour))
        return "offer: price must be 0 or more and at most $10000/h";
    if (!is_price(event->u.offer_changed.on_demand_usd_micros_per_hour))
        return "offer: on-demand price must be 0 or more and at most $10000/h";
    if (event->u.offer_changed.region == 0) return "offer: region 0 means any, use another";
    if (event->u.offer_changed.capacity < CAPACITY_OWNED ||
        event->u.offer_changed.capacity >= CAPACITY_KIND_END)
        return "offer: unknown capacity kind";
    if (event->u.offer_changed.device_count == 0 ||
        event->u.offer_changed.device_count > NODE_DEVICES_MAX)
        return "offer: a node must have 1 to 4096 devices";
    if (event->u.offer_changed.host_cpu_milli > TERMS_SIZE_MAX ||
        event->u.offer_changed.host_memory_mib > TERMS_SIZE_MAX)
        return "offer: a host with more than a million processors or a petabyte";
    return event->u.offer_changed.billing_s > BILLING_S_MAX
               ? "offer: it bills more than a day at once"
               : NULL;
}

static const char *check_prices(const struct pool_event *event)
{
    uint32_t count = event->u.offers_priced.count;
    if (count == 0 || count > PRICED_MAX) return "prices: 1 to 6 of them in one event";
    if (event->u.offers_priced.more > 1) return "prices: more is neither 0 nor 1";
    for (uint32_t i = 0; i < count; i++) {
        if (event->u.offers_priced.prices[i].offer_id == 0)
            return "prices: offer 0 means none, use another";
        if (!is_price(event->u.offers_priced.prices[i].usd_micros_per_hour))
            return "prices: a price must be 0 or more and at most $10000/h";
    }
    return NULL;
}

static const char *check_job(const struct pool_event *event)
{
    if (event->u.job_submitted.job_id == 0) return "job: id 0 means none, use another";
    if (event->u.job_submitted.budget_usd_micros_per_hour < 0 ||
        event->u.job_submitted.budget_usd_micros_per_hour > MONEY_MAX)
        return "job: budget per hour must be 0 (none) or more and at most $1 billion";
    if (event->u.job_submitted.budget_usd_micros < 0 ||
        event->u.job_submitted.budget_usd_micros > MONEY_MAX)
        return "job: budget must be 0 (none) or more and at most $1 billion";
    if (event->u.job_submitted.devices_min > DEVICES_MAX ||
        event->u.job_submitted.devices_max > DEVICES_MAX)
        return "job: more than a million devices";
    if (event->u.job_submitted.price_threshold_ppm > THRESHOLD_PPM_MAX)
        return "job: price_threshold is above 10, ten times the on-demand price";
    if (event->u.job_submitted.job_class >= JOB_CLASS_END)
        return "job: unknown class, use P0 to P3";
    if (event->u.job_submitted.kind < JOB_KIND_ELASTIC ||
        event->u.job_submitted.kind >= JOB_KIND_END)
        return "job: unknown kind, use elastic or batch";
    if (event->u.job_submitted.capacity_mask >= 1 << CAPACITY_KIND_END)
        return "job: unknown capacity kind";
    if (event->u.job_submitted.reserved_word != 0) return "job: reserved field is not 0";
    return event->u.job_submitted.reserved != 0 ? "job: reserved field is not 0" : NULL;
}

static const char *check_node(const struct pool_event *event)
{
    if (event->u.node_observed.node_key == 0) return "node: key 0 means none";
    if (event->u.node_observed.phase < NODE_PHASE_ABSENT ||
        event->u.node_observed.phase >= NODE_PHASE_END)
        return "node: unknown phase";
    if (event->u.node_observed.reason >= NODE_REASON_END) return "node: unknown reason";
    if (!is_time(event->u.node_observed.notice_us) || !is_time(event->u.node_observed.up_since_us))
        return "node: a time before 1970 or after 2100";
    if (event->u.node_observed.billed_usd_micros < -1 ||
        event->u.node_observed.billed_usd_micros > MONEY_MAX)
        return "node: bill must be -1 (not known) or more and at most $1 billion";
    return NULL;
}

static const char *check_agent(const struct pool_event *event)
{
    if (event->u.agent_reported.node_key == 0) return "agent: node key 0 means none";
    if (event->u.agent_reported.phase < AGENT_PHASE_JOINED ||
        event->u.agent_reported.phase >= AGENT_PHASE_END)
        return "agent: unknown phase";
    return island_problem(&event->u.agent_reported.groups);
}

static const char *check_worker(const struct pool_event *event)
{
    if (event->u.worker_reported.node_key == 0) return "worker: node key 0 means none";
    if (event->u.worker_reported.phase < WORKER_PHASE_STARTING ||
        event->u.worker_reported.phase >= WORKER_PHASE_END)
        return "worker: unknown phase";
    if (event->u.worker_reported.step > INT64_MAX) return "worker: step does not fit 63 bits";
    return NULL;
}

static const char *check_stall(const struct pool_event *event)
{
    if (event->u.worker_stalled.kind < STALL_OVER || event->u.worker_stalled.kind >= STALL_KIND_END)
        return "stall: unknown kind";
    if (event->u.worker_stalled.step > INT64_MAX || event->u.worker_stalled.worker_id > INT64_MAX ||
        event->u.worker_stalled.peer_id > INT64_MAX)
        return "stall: a step or worker does not fit 63 bits";
    return is_time(event->u.worker_stalled.lasted_us) ? NULL
                                                      : "stall: lasts less than 0 or too long";
}

static bool is_duration(int64_t us)
{
    return us >= 0 && us <= TERMS_US_MAX;
}

static const char *check_terms_resources(const struct job_terms *t)
{
    if (t->device_milli > 1000)
        return "terms: more than one device; ask for whole devices by their count";
    if (t->device_memory_mib > TERMS_SIZE_MAX || t->host_cpu_milli > TERMS_SIZE_MAX ||
        t->host_memory_mib > TERMS_SIZE_MAX)
        return "terms: memory or processors above a billion of their units";
    if (t->host_only > 1) return "terms: host_only is neither 0 nor 1";
    if (t->host_only && (t->device_milli != 0 || t->device_memory_mib != 0))
        return "terms: no device, and a part of one";
    if (t->host_only && t->host_cpu_milli == 0 && t->host_memory_mib == 0)
        return "terms: neither a device nor processors nor memory";
    if (t->mig_profile > MIG_COMPUTE_MAX) return "terms: unknown MIG profile";
    if (t->mig_profile != 0 && (t->device_milli != 0 || t->host_only))
        return "terms: a MIG instance, and another part of a device";
    if (t->topology_required >= TOPOLOGY_END || t->topology_preferred >= TOPOLOGY_END)
        return "terms: unknown level of topology";
    return NULL;
}

/* Its devices follow from its NCU, so nothing can be asked of each. */
static const char *check_terms_ncu(const struct job_terms *t)
{
    if (t->ncu_milli == 0) return NULL;
    if (t->ncu_milli > NCU_WANTED_MAX) return "terms: more than 100,000 NCU";
    if (part_is_special(t) || t->host_only) return "terms: NCU, and parts of devices or of hosts";
    if (t->affinity != TOPOLOGY_ANY || t->spread != TOPOLOGY_ANY)
        return "terms: NCU, and devices that are together or apart";
    if (t->degrade != 0) return "terms: NCU, and a next tier";
    return t->deadline_us != 0 ? "terms: NCU, and a deadline" : NULL;
}

static const char *check_terms(const struct pool_event *event)
{
    const struct job_terms *t = &event->u.terms_defined.terms;
    if (event->u.terms_defined.terms_id == 0) return "terms: id 0 means none, use another";
    const char *trouble = check_terms_resources(t);
    if (trouble == NULL) trouble = check_terms_ncu(t);
    if (trouble != NULL) return trouble;
    if (!is_duration(t->run_us) || !is_duration(t->notice_us) || !is_duration(t->ckpt_interval_us))
        return "terms: a time below 0 or above ten years";
    if (t->data_bytes > INT64_MAX) return "terms: data does not fit 63 bits";
    if (t->degrade > POOLS_MAX) return "terms: degrade names no pool";
    if (t->affinity >= TOPOLOGY_END || t->spread > TOPOLOGY_NODE)
        return "terms: unknown level of affinity";
    if (t->affinity > TOPOLOGY_NODE && part_is_share(t))
        return "terms: a part of a device, and devices joined inside a node";
    if (t->gate >= GATE_ABOVE_END) return "terms: unknown gate";
    if (t->deadline_us < 0 || t->deadline_us > TIME_US_MAX)
        return "terms: a deadline below 0 or after 2100";
    if (t->deadline_us != 0 && t->run_us == 0)
        return "terms: a deadline, and no run time to tell how much time is left";
    return t->reserved_byte != 0 ? "terms: reserved field is not 0" : NULL;
}

static const char *check_links(const struct pool_event *event)
{
    if (event->u.links_told.from == 0) return "links: from region 0, which is none";
    if (event->u.links_told.count == 0 || event->u.links_told.count > LINKS_TOLD_MAX)
        return "links: 1 to 8 of them in one event";
    for (uint32_t i = 0; i < event->u.links_told.count; i++)
        if (event->u.links_told.links[i].usd_micros_per_gb > LINK_USD_MICROS_MAX)
            return "links: more than $1000 a GB";
    return NULL;
}

static bool is_ncu(int64_t ncu_milli)
{
    return ncu_milli >= -1 && ncu_milli <= QUOTA_MILLI_MAX;
}

static const char *check_ranks(const struct pool_event *event)
{
    uint32_t count = event->u.offers_ranked.count, state = event->u.offers_ranked.state;
    if (state < RANKING_OWN || state >= RANKING_STATE_END) return "ranks: unknown state";
    if (count > RANKED_MAX) return "ranks: at most 6 of them in one event";
    if (count > 0 && state != RANKING_OWN) return "ranks: of the built-in ranking";
    for (uint32_t i = 0; i < count; i++) {
        const struct told_rank *rank = &event->u.offers_ranked.ranks[i];
        if (rank->offer_id == 0) return "ranks: offer 0 means none, use another";
        if (rank->factor_ppm > RANK_OUTSIDE &&
            (rank->factor_ppm < RANK_PPM_MIN || rank->factor_ppm > RANK_PPM_MAX))
            return "ranks: a price counts a thousandth to a thousand times";
        if (rank->beside > 1) return "ranks: beside is 0 or 1";
    }
    return NULL;
}

static const char *check_buying(const struct pool_event *event)
{
    uint32_t scope = event->u.buying_defined.scope;
    if (scope < BUYING_OF_CLASS || scope >= BUYING_SCOPE_END) return "buying: unknown scope";
    if (scope == BUYING_OF_CLASS && event->u.buying_defined.index >= JOB_CLASS_END)
        return "buying: unknown class, use P0 to P3";
    if (event->u.buying_defined.policy >= BUYING_POLICY_END) return "buying: unknown policy";
    if (event->u.buying_defined.price_threshold_ppm > THRESHOLD_PPM_MAX)
        return "buying: price_threshold is above 10, ten times the on-demand price";
    if (scope == BUYING_OF_POOL && event->u.buying_defined.price_threshold_ppm != 0)
        return "buying: the threshold of a pool is in its definition";
    if (!is_price(event->u.buying_defined.bid_usd_micros))
        return "buying: bid must be 0 (none) or more and at most $10000/h";
    return is_price(event->u.buying_defined.device_usd_micros_max)
               ? NULL
               : "buying: max_price must be 0 (none) or more and at most $10000/h";
}

static const char *check_account(const struct pool_event *event)
{
    for (uint32_t kind = 0; kind < QUOTA_KINDS; kind++)
        if (!is_ncu(event->u.account_defined.quota_milli[kind]) ||
            !is_ncu(event->u.account_defined.borrow_milli[kind]) ||
            !is_ncu(event->u.account_defined.lend_milli[kind]))
            return "account: a quota must be 0 or more (-1: none) and at most 1e9 NCU";
    if (event->u.account_defined.usd_micros_per_hour_max < 0 ||
        event->u.account_defined.usd_micros_per_hour_max > MONEY_MAX)
        return "account: dollars per hour must be 0 (no limit) or more and at most $1 billion";
    for (uint32_t i = 0; i < QUOTA_PERIODS; i++)
        if (event->u.account_defined.usd_micros_max[i] < 0 ||
            event->u.account_defined.usd_micros_max[i] > MONEY_MAX)
            return "account: dollars of a day or month must be 0 (no limit) to $1 billion";
    if (event->u.account_defined.weight_milli > WEIGHT_MILLI_MAX)
        return "account: weight is above 1000";
    return event->u.account_defined.submissions_per_minute_max > 1000000
               ? "account: more than a million submissions a minute"
               : NULL;
}

static const char *check_quota_model(const struct pool_event *event)
{
    if (event->u.quota_model_defined.kind >= QUOTA_KINDS) return "quota: unknown kind of devices";
    if (event->u.quota_model_defined.weight_milli > WEIGHT_MILLI_MAX)
        return "quota: the weight of a model is above 1000";
    return event->u.quota_model_defined.reserved != 0 ? "quota: reserved field is not 0" : NULL;
}

static const char *check_class(const struct pool_event *event)
{
    if (event->u.class_defined.job_class >= JOB_CLASS_END)
        return "class: unknown class, use P0 to P3";
    if (event->u.class_defined.reserved_ppm > 1000000 || event->u.class_defined.burst_ppm > 1000000)
        return "class: a share is above 100 %";
    if (event->u.class_defined.may_preempt_mask >= 1U << JOB_CLASS_END)
        return "class: may preempt an unknown class";
    if (event->u.class_defined.preemptible > 1 || event->u.class_defined.queues > 1)
        return "class: preemptible and queues are 0 or 1";
    return NULL;
}

static const char *check_rate(const struct pool_event *event)
{
    if (event->u.rate_told.work_id == 0) return "rate: work 0 means none, use another";
    if (event->u.rate_told.rate_micro > RATE_MICRO_MAX) return "rate: above a million a second";
    if (event->u.rate_told.source < RATE_DECLARED || event->u.rate_told.source >= RATE_SOURCE_END)
        return "rate: unknown source";
    return event->u.rate_told.source == RATE_MEASURED && event->u.rate_told.rate_micro == 0
               ? "rate: measured as 0, which is no measurement"
               : NULL;
}

static const char *check_matching(const struct pool_event *event)
{
    return is_duration(event->u.matching_defined.round_us) &&
                   is_duration(event->u.matching_defined.restart_us)
               ? NULL
               : "matching: a time below 0 or above ten years";
}

static bool is_gate(int64_t usd_micros)
{
    return usd_micros >= GATE_NONE && usd_micros <= MONEY_MAX;
}

static const char *check_gate(const struct pool_event *event)
{
    uint32_t scope = event->u.gate_defined.scope, index = event->u.gate_defined.index;
    if (scope < GATE_OF_CLASS || scope >= GATE_SCOPE_END) return "gate: unknown scope";
    if (index >= (scope == GATE_OF_CLASS ? (uint32_t)JOB_CLASS_END : (uint32_t)POOLS_MAX))
        return "gate: no such class or pool";
    if (!is_gate(event->u.gate_defined.usd_micros_per_hour_max) ||
        !is_gate(event->u.gate_defined.usd_micros_per_job_max) ||
        !is_gate(event->u.gate_defined.usd_micros_per_month_max))
        return "gate: dollars must be 0 or more (-1: no limit) and at most $1 billion";
    if (event->u.gate_defined.refuses > 1) return "gate: refuses is neither 0 nor 1";
    return event->u.gate_defined.reserved != 0 ? "gate: reserved field is not 0" : NULL;
}

static const char *check_kind(const struct pool_event *event)
{
    switch ((enum pool_event_kind)event->kind) {
    case POOL_EVENT_TICK:
    case POOL_EVENT_RESTARTED: return NULL;
    case POOL_EVENT_MODEL_DEFINED: return check_model(event);
    case POOL_EVENT_POOL_DEFINED: return check_pool(event);
    case POOL_EVENT_OFFER_CHANGED: return check_offer(event);
    case POOL_EVENT_JOB_SUBMITTED: return check_job(event);
    case POOL_EVENT_JOB_CANCELLED: return NULL;
    case POOL_EVENT_NODE_OBSERVED: return check_node(event);
    case POOL_EVENT_AGENT_REPORTED: return check_agent(event);
    case POOL_EVENT_WORKER_REPORTED: return check_worker(event);
    case POOL_EVENT_CKPT_DURABLE:
    case POOL_EVENT_NODE_DRAIN_ASKED: return NULL;
    case POOL_EVENT_WORKER_STALLED: return check_stall(event);
    case POOL_EVENT_TERMS_DEFINED: return check_terms(event);
    case POOL_EVENT_ACCOUNT_DEFINED: return check_account(event);
    case POOL_EVENT_QUOTA_MODEL_DEFINED: return check_quota_model(event);
    case POOL_EVENT_CLASS_DEFINED: return check_class(event);
    case POOL_EVENT_OFFERS_PRICED: return check_prices(event);
    case POOL_EVENT_RATE_TOLD: return check_rate(event);
    case POOL_EVENT_MATCHING_DEFINED: return check_matching(event);
    case POOL_EVENT_GATE_DEFINED: return check_gate(event);
    case POOL_EVENT_LINKS_TOLD: return check_links(event);
    case POOL_EVENT_BUYING_DEFINED: return check_buying(event);
    case POOL_EVENT_OFFERS_RANKED: return check_ranks(event);
    case POOL_EVENT_KIND_END: break;
    }
    return "event: unknown kind";
}

/* Bytes that the kind does not use are not looked at: initialising one member of a union leaves the
 * others unspecified, and records are written field by field. */
const char *pool_event_check(const struct pool_event *event)
{
    if (event->version != POOL_CORE_VERSION)
        return "event: written for another version of the core";
    if (event->seq >= SEQ_MAX) return "event: sequence number above 2^47";
    if (!is_time(event->now_us)) return "event: a time before 1970 or after 2100";
    return check_kind(event);
}
