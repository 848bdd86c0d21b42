#include "core/bill.h"
#include "core/act.h"
#include "core/assert.h"
#include "core/ledger.h"
#include "core/offer.h"

#define MINUTE_US INT64_C(60000000)
/* Two percent above the quoted minutes: clocks and prices of the last moment. */
#define SLACK_DIVISOR 50

/* Per hour, when `minutes` were billed, as many providers do, begun ones in full. */
static int64_t rate_of(int64_t usd_micros, int64_t minutes)
{
    int64_t rate = usd_micros * 60 / minutes;
    return rate < PRICE_MAX ? rate : PRICE_MAX;
}

/* A bill below what is owed by now is an old one, or begun minutes are not in it: a new one may hold
 * as much as is owed and a minute that has begun. */
static void begin_window(pool *p, uint32_t node, int64_t billed_usd_micros)
{
    struct node *n = &p->nodes[node];
    int64_t ours = ledger_usd_micros(p, node);
    int64_t minute = p->offers[n->offer].usd_micros_per_hour / 60 + 1;
    n->bill_from_us = p->now_us;
    n->bill_from_usd_micros = billed_usd_micros >= ours ? billed_usd_micros : ours + minute;
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

void bill_seen(pool *p, uint32_t node, int64_t billed_usd_micros, struct pool_output *out)
{
    struct node *n = &p->nodes[node];
    if (billed_usd_micros < 0 || n->offer == SLOT_NONE || !act_has_room(out)) return;
    const struct offer *o = &p->offers[n->offer];
    if (n->bill_from_us == 0 || o->metered_us > n->bill_from_us) {
        begin_window(p, node, billed_usd_micros);
        return;
    }
    int64_t window_us = p->now_us - n->bill_from_us;
    if (window_us < MINUTE_US) return;
    int64_t minutes = (window_us + MINUTE_US - 1) / MINUTE_US;
    int64_t rate = rate_of(billed_usd_micros - n->bill_from_usd_micros, minutes);
    if (rate <= o->usd_micros_per_hour + o->usd_micros_per_hour / SLACK_DIVISOR) return;
    begin_window(p, node, billed_usd_micros);
    distrust(p, n, rate, out);
}
