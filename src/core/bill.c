#include "core/bill.h"
#include "core/act.h"
#include "core/assert.h"
#include "core/ledger.h"
#include "core/money.h"
#include "core/offer.h"

#define MINUTE_US INT64_C(60000000)
/* Two percent above the quoted minutes: clocks and prices of the last moment. */
#define SLACK_DIVISOR 50
/* Many providers bill minutes and do not say so. */
enum { MINUTE_S = 60, HOUR_S = 3600 };

static bool bills_more_than_minutes(const struct offer *o)
{
    return o->billing_s > MINUTE_S;
}

static int64_t unit_s(const struct offer *o)
{
    return bills_more_than_minutes(o) ? o->billing_s : MINUTE_S;
}

/* Per hour, when begun units were billed whole. Of more than a minute one more may have begun than we
 * saw: its clock starts before ours. */
static int64_t rate_of(const struct offer *o, int64_t usd_micros, int64_t window_us)
{
    int64_t unit_us = unit_s(o) * 1000000;
    if (bills_more_than_minutes(o)) window_us += 2 * MINUTE_US;
    int64_t units = (window_us + unit_us - 1) / unit_us;
    int64_t rate = usd_micros * HOUR_S / (units * unit_s(o)); /* at most MONEY_MAX: fits */
    return rate < PRICE_MAX ? rate : PRICE_MAX;
}

/* Its provider may have counted before we did, when its agent was heard first. */
static int64_t counts_since_us(const struct node *n, int64_t up_since_us)
{
    if (!n->billing || up_since_us == 0 || up_since_us > n->up_since_us) return n->up_since_us;
    return up_since_us < n->ordered_us ? n->ordered_us : up_since_us;
}

/* A bill below what is owed by now is an old one, or begun units are not in it: a new one may hold
 * as much as is owed and a unit that has begun. */
static void begin_window(pool *p, uint32_t node, const struct bill *bill)
{
    struct node *n = &p->nodes[node];
    const struct offer *o = &p->offers[n->offer];
    int64_t billed_usd_micros = bill->usd_micros;
    int64_t before_us = n->up_since_us - counts_since_us(n, bill->up_since_us);
    struct meter before = {0};
    money_meter_add(&before, o->usd_micros_per_hour, before_us);
    int64_t ours = money_add(ledger_usd_micros(p, node), before.usd_micros);
    int64_t unit = o->usd_micros_per_hour * unit_s(o) / HOUR_S + 1;
    n->bill_from_us = p->now_us;
    n->bill_from_usd_micros = billed_usd_micros >= ours ? billed_usd_micros : ours + unit;
}

/* The first unit is on the first bill: when the price has been the same since then, all of it can be
 * compared, instead of what comes with the next unit. */
static bool begin_when_up(const pool *p, struct node *n, const struct bill *bill)
{
    const struct offer *o = &p->offers[n->offer];
    int64_t since_us = counts_since_us(n, bill->up_since_us);
    if (n->bill_from_us != 0 || !n->billing || !bills_more_than_minutes(o)) return false;
    if (o->metered_us > since_us) return false;
    n->bill_from_us = since_us;
    n->bill_from_usd_micros = 0;
    return true;
}

static void distrust(pool *p, const struct node *n, int64_t rate, struct pool_output *out)
{
    const struct offer *o = &p->offers[n->offer];
    MARK(out, OFFER_DISTRUSTED);
    act_decision(p, out,
                 (struct pool_decision){.kind = DECISION_DISTRUST,
                                        .reason = REASON_BILLED_ABOVE_QUOTE,
                                        .node_key = n->node_key,
                                        .offer_id = o->offer_id,
                                        .a = rate,
                                        .b = o->usd_micros_per_hour});
    offer_distrust(p, n->offer, rate);
}

void bill_seen(pool *p, uint32_t node, const struct bill *bill, struct pool_output *out)
{
    struct node *n = &p->nodes[node];
    if (bill->usd_micros < 0 || n->offer == SLOT_NONE || !act_has_room(out)) return;
    const struct offer *o = &p->offers[n->offer];
    if (!begin_when_up(p, n, bill) && (n->bill_from_us == 0 || o->metered_us > n->bill_from_us)) {
        begin_window(p, node, bill);
        return;
    }
    int64_t window_us = p->now_us - n->bill_from_us;
    if (window_us < MINUTE_US) return;
    int64_t rate = rate_of(o, bill->usd_micros - n->bill_from_usd_micros, window_us);
    if (rate <= o->usd_micros_per_hour + o->usd_micros_per_hour / SLACK_DIVISOR) return;
    begin_window(p, node, bill);
    distrust(p, n, rate, out);
}
