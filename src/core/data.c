#include "core/data.h"
#include "core/act.h"
#include "core/job.h"
#include "core/quota.h"

static uint64_t key_of(uint32_t from, uint32_t to)
{
    return (uint64_t)from << 32 | to;
}

/* The first with this key, or the place where it would be. */
static uint32_t place_of(const pool *p, uint64_t key)
{
    uint32_t low = 0, high = p->links_end;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (p->links[middle].key < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool take_link(pool *p, uint64_t key, const struct told_link *told)
{
    uint32_t at = place_of(p, key);
    if (at == p->links_end || p->links[at].key != key) {
        if (p->links_end == LINKS_MAX) return false;
        for (uint32_t i = p->links_end++; i > at; i--) p->links[i] = p->links[i - 1];
    }
    p->links[at] = (struct link_cost){
        .key = key, .usd_micros_per_gb = told->usd_micros_per_gb, .mb_per_s = told->mb_per_s};
    return true;
}

void data_links_told(pool *p, const struct pool_event *event, struct pool_output *out)
{
    for (uint32_t i = 0; i < event->u.links_told.count; i++) {
        const struct told_link *told = &event->u.links_told.links[i];
        if (!take_link(p, key_of(event->u.links_told.from, told->to), told))
            MARK(out, CATALOG_LIMIT);
    }
}

static bool find_told(const struct pool_event *links, uint32_t link_count, uint32_t from,
                      uint32_t to, struct told_link *ret_link)
{
    for (uint32_t e = 0; e < link_count; e++)
        for (uint32_t i = 0; i < links[e].u.links_told.count; i++) {
            if (links[e].u.links_told.from != from || links[e].u.links_told.links[i].to != to)
                continue;
            *ret_link = links[e].u.links_told.links[i];
            return true;
        }
    return false;
}

static bool find_link(const pool *p, uint32_t from, uint32_t to, struct told_link *ret_link)
{
    uint32_t at = place_of(p, key_of(from, to));
    if (at == p->links_end || p->links[at].key != key_of(from, to)) return false;
    *ret_link = (struct told_link){.to = to,
                                   .usd_micros_per_gb = p->links[at].usd_micros_per_gb,
                                   .mb_per_s = p->links[at].mb_per_s};
    return true;
}

struct staging data_staging(const pool *p, const struct job_terms *terms, uint32_t region,
                            const struct pool_event *links, uint32_t link_count)
{
    struct told_link link;
    uint32_t from = terms->data_region;
    struct staging staging = {0};
    if (!data_is_set(terms)) return staging;
    if (!find_told(links, link_count, from, region, &link) && !find_link(p, from, region, &link) &&
        !find_told(links, link_count, from, 0, &link) && !find_link(p, from, 0, &link))
        return staging;
    uint64_t gb = terms->data_bytes / DATA_GB, rest_mb = terms->data_bytes % DATA_GB / DATA_MB;
    uint64_t mb = terms->data_bytes / DATA_MB;
    uint64_t cost = gb * link.usd_micros_per_gb + rest_mb * link.usd_micros_per_gb / 1000;
    staging.usd_micros = cost > (uint64_t)MONEY_MAX ? MONEY_MAX : (int64_t)cost;
    if (link.mb_per_s == 0) return staging;
    uint64_t seconds = mb / link.mb_per_s;
    staging.us =
        seconds > (uint64_t)(TERMS_US_MAX / 1000000) ? TERMS_US_MAX : (int64_t)seconds * 1000000;
    return staging;
}

struct staging data_staging_of(const pool *p, const struct demand *demand, uint32_t region_index)
{
    if (demand->job != SLOT_NONE && p->jobs[demand->job].data_at == region_index + 1)
        return (struct staging){0};
    return data_staging(p, demand->terms, p->regions[region_index].region, NULL, 0);
}

int64_t data_left_usd_micros(const pool *p, uint32_t job)
{
    const struct job *j = &p->jobs[job];
    int64_t left = quota_period_left(p, j->account);
    if (j->budget_usd_micros == 0) return left;
    int64_t own = j->budget_usd_micros - job_spent_usd_micros(p, job);
    return own < left ? own : left;
}

bool data_affords(const pool *p, const struct demand *demand, uint32_t region_index)
{
    if (!data_is_set(demand->terms) || demand->job == SLOT_NONE) return true;
    if (demand->lifted & OBSTACLE_DATA) return true;
    int64_t usd_micros = data_staging_of(p, demand, region_index).usd_micros;
    return usd_micros == 0 || usd_micros <= data_left_usd_micros(p, demand->job);
}

int64_t data_unit_cost(int64_t usd_micros_per_hour, uint64_t ncu_milli, int64_t run_us,
                       struct staging staging)
{
    if (run_us <= 0) run_us = HOUR_US;
    if (run_us > TIME_US_MAX / 8) run_us = TIME_US_MAX / 8;
    int64_t held_us = staging.us < TIME_US_MAX / 8 ? run_us + staging.us : run_us;
    int64_t cost = money_add(quota_price_of_run(usd_micros_per_hour, held_us), staging.usd_micros);
    uint64_t work = ncu_milli * (uint64_t)(run_us / 1000000 + 1) / 3600; /* milli-NCU-hours */
    if (work == 0) work = 1;
    if (work > INT64_MAX / 4000) work = INT64_MAX / 4000;
    int64_t whole = cost / (int64_t)work, rest = cost % (int64_t)work;
    return money_add(whole * 1000, rest * 1000 / (int64_t)work);
}

void data_bring(pool *p, uint32_t job, uint32_t region_index, struct pool_output *out)
{
    struct job *j = &p->jobs[job];
    const struct job_terms *terms = terms_of(p, &p->shapes[j->shape]);
    if (!data_is_set(terms) || j->data_at == region_index + 1) return;
    struct staging staging = data_staging(p, terms, p->regions[region_index].region, NULL, 0);
    j->data_at = region_index + 1;
    if (staging.usd_micros == 0 && staging.us == 0) return;
    j->egress_usd_micros = money_add(j->egress_usd_micros, staging.usd_micros);
    quota_spend_beside(p, job, staging.usd_micros);
    act_decision(p, out,
                 (struct pool_decision){.kind = DECISION_PLACE,
                                        .reason = REASON_DATA_COMES,
                                        .job_id = j->job_id,
                                        .a = staging.usd_micros,
                                        .b = staging.us,
                                        .c = (int64_t)(terms->data_bytes / DATA_GB)});
}
