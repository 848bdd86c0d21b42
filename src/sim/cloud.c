/* The clouds: what they sell, the machines they run, what they truly bill.
 *
 * Contract kept with the core: commands are idempotent by node key; after RELEASE was answered with
 * ABSENT or GONE no machine of that key ever runs again (a tombstone stays), so a late ENSURE
 * cannot bring it back. A cloud may lie once about a start (ghost), be late, or answer with an old
 * list.
 */
#include "core/assert.h"
#include "sim/shadow.h"
#include "sim/world.h"
#include <inttypes.h>

enum cloud_what { COMMAND, PRICE, JUMP, STOCKOUT, POLL, UP, NOTICE, TAKE, CRASH, END };

#define POLL_US        (30 * SIM_SECOND_US) /* how often a driver tells all prices again */
#define STOCKOUT_US    (10 * SIM_MINUTE_US)
#define JUMP_US        (8 * SIM_MINUTE_US)
#define WALK_PPM       INT64_C(25000) /* largest move of a spot price in one step */
#define REVERSION_PART INT64_C(10)    /* and a tenth of the way back to its mean */
#define PPM            INT64_C(1000000)

/* What the cloud owes us for the time since the meter was last read, at the price since then. */
static int64_t sim_cloud_bill(struct sim *s, uint32_t machine)
{
    struct sim_machine *m = &s->machines[machine];
    if (m->phase == NODE_PHASE_UP) {
        const struct sim_offer *o = &s->offers[m->offer];
        int64_t price = o->usd_micros_per_hour + o->usd_micros_per_hour * o->overbill_ppm / PPM;
        m->billed_rest += price * (s->now_us - m->metered_us);
        m->billed_usd_micros += m->billed_rest / SIM_HOUR_US;
        m->billed_rest %= SIM_HOUR_US;
        m->metered_us = s->now_us;
    }
    return m->billed_usd_micros;
}

static bool meter_told(const struct sim *s, const struct sim_machine *m)
{
    uint32_t cloud = s->offers[m->offer].cloud;
    struct sim_random random = sim_random_fork(s->seed, 500 + cloud);
    return !sim_random_chance(&random, s->options.meter_missing_ppm);
}

static void move(struct sim *s, uint32_t machine, uint32_t phase, uint32_t reason)
{
    struct sim_machine *m = &s->machines[machine];
    m->phase_before = m->phase;
    m->changed_us = s->now_us;
    m->phase = phase;
    m->reason = reason;
}

static struct pool_event observation(struct sim *s, uint32_t machine)
{
    struct sim_machine *m = &s->machines[machine];
    struct pool_event event = {.kind = POOL_EVENT_NODE_OBSERVED};
    event.u.node_observed.node_key = m->key;
    event.u.node_observed.phase = m->phase;
    event.u.node_observed.reason = m->reason;
    event.u.node_observed.notice_us = m->notice_us;
    event.u.node_observed.up_since_us = m->up_since_us;
    int64_t billed = sim_cloud_bill(s, machine);
    event.u.node_observed.billed_usd_micros = meter_told(s, m) ? billed : -1;
    return event;
}

static void send(struct sim *s, const struct pool_event *event)
{
    if (event->kind == POOL_EVENT_NODE_OBSERVED && s->drop_replies > 0) {
        s->drop_replies--;
        SIM_SAY(s, "network: the answer about node %u is lost",
                sim_shadow_node_number(s, event->u.node_observed.node_key));
        return;
    }
    uint32_t index;
    struct sim_message *message = sim_message_new(s, SIM_MESSAGE_EVENTS, &index);
    message->events[0] = *event;
    message->count = 1;
    sim_send_to_server(s, index);
}

static void sim_cloud_tell_node(struct sim *s, uint32_t machine)
{
    struct pool_event event = observation(s, machine);
    send(s, &event);
}

/* An answer from a list that may lag: it shows the phase before, and no meter. */
static void tell_node_lagging(struct sim *s, uint32_t machine)
{
    struct sim_machine *m = &s->machines[machine];
    int64_t lag_us = sim_faults_on(s) && s->options.list_lag_us_max > 0
                         ? sim_random_range(&m->random, 0, s->options.list_lag_us_max)
                         : 0;
    if (m->phase_before == 0 || s->now_us - m->changed_us >= lag_us) {
        sim_cloud_tell_node(s, machine);
        return;
    }
    struct pool_event event = observation(s, machine);
    event.u.node_observed.phase = m->phase_before;
    event.u.node_observed.reason = NODE_REASON_NONE;
    event.u.node_observed.billed_usd_micros = -1;
    if (m->phase_before != NODE_PHASE_UP) event.u.node_observed.up_since_us = 0;
    send(s, &event);
}

void sim_cloud_tell_offer(struct sim *s, uint32_t offer)
{
    const struct sim_offer *o = &s->offers[offer];
    struct pool_event event = {.kind = POOL_EVENT_OFFER_CHANGED};
    event.u.offer_changed.offer_id = o->id;
    event.u.offer_changed.usd_micros_per_hour = o->usd_micros_per_hour;
    event.u.offer_changed.on_demand_usd_micros_per_hour = o->on_demand_usd_micros_per_hour;
    event.u.offer_changed.provider = o->cloud + 1;
    event.u.offer_changed.region = o->region;
    event.u.offer_changed.zone = o->zone;
    event.u.offer_changed.rack = o->rack;
    event.u.offer_changed.model = o->model;
    event.u.offer_changed.capacity = o->capacity;
    event.u.offer_changed.device_count = o->device_count;
    bool sold_out = o->stockout_until_us > s->now_us || o->held >= o->stock;
    event.u.offer_changed.stock_count = sold_out ? 0 : o->stock - o->held;
    event.u.offer_changed.hazard_ppm = o->hazard_ppm;
    send(s, &event);
}

static void free_place(struct sim *s, struct sim_machine *m)
{
    struct sim_offer *offer = &s->offers[m->offer];
    ASSERT(offer->held > 0);
    offer->held--;
    m->gone_us = s->now_us;
    m->notice_us = 0;
}

void sim_cloud_take(struct sim *s, uint32_t machine, uint32_t reason)
{
    struct sim_machine *m = &s->machines[machine];
    if (m->phase != NODE_PHASE_UP && m->phase != NODE_PHASE_PENDING) return;
    SIM_SAY(s, "cloud%u: node %u is gone (%s)", s->offers[m->offer].cloud,
            sim_shadow_node_number(s, m->key),
            reason == NODE_REASON_PREEMPTED ? "preempted"
            : reason == NODE_REASON_CRASHED ? "crashed"
                                            : "ended");
    (void)sim_cloud_bill(s, machine); /* read the meter for the last time */
    move(s, machine, NODE_PHASE_GONE, reason);
    free_place(s, m);
    sim_agent_machine_gone(s, machine);
    sim_cloud_tell_node(s, machine);
}

void sim_cloud_notice(struct sim *s, uint32_t machine, int64_t in_us)
{
    struct sim_machine *m = &s->machines[machine];
    if (m->phase != NODE_PHASE_UP && m->phase != NODE_PHASE_PENDING) return;
    if (in_us > 0) {
        SIM_SAY(s, "cloud%u: will take node %u in %" PRId64 " s", s->offers[m->offer].cloud,
                sim_shadow_node_number(s, m->key), in_us / SIM_SECOND_US);
        m->notice_us = s->now_us + in_us;
        sim_cloud_tell_node(s, machine);
    }
    sim_later(s, in_us, SIM_CLOUD, TAKE, 0, machine);
}

static int64_t notice_length_us(const struct sim *s, struct sim_machine *m)
{
    int64_t notice_us = s->options.notice_us_max > 0
                            ? sim_random_range(&m->random, 0, s->options.notice_us_max)
                            : 0;
    if (sim_random_chance(&m->random, 300000)) return 0; /* without notice, often enough */
    return notice_us;
}

static void plan_fates(struct sim *s, uint32_t machine)
{
    struct sim_machine *m = &s->machines[machine];
    const struct sim_options *options = &s->options;
    if (s->offers[m->offer].capacity == CAPACITY_SPOT && options->preempt_mean_us > 0)
        sim_later(s, sim_random_exponential_us(&m->random, options->preempt_mean_us), SIM_CLOUD,
                  NOTICE, 0, machine);
    if (options->machine_crash_mean_us > 0)
        sim_later(s, sim_random_exponential_us(&m->random, options->machine_crash_mean_us),
                  SIM_CLOUD, CRASH, 0, machine);
}

static uint32_t refusal(struct sim *s, const struct sim_offer *offer, int64_t bid_usd_micros)
{
    if (bid_usd_micros != 0 && offer->usd_micros_per_hour > bid_usd_micros)
        return NODE_REASON_STOCKOUT;
    if (offer->held >= offer->stock || offer->stockout_until_us > s->now_us)
        return NODE_REASON_STOCKOUT;
    if (!sim_faults_on(s)) return NODE_REASON_NONE;
    uint32_t held = 0;
    for (uint32_t i = 0; i < s->offer_count; i++)
        if (s->offers[i].cloud == offer->cloud) held += s->offers[i].held;
    if (s->options.quota_nodes > 0 && held >= s->options.quota_nodes) return NODE_REASON_QUOTA;
    if (sim_random_chance(&s->random[SIM_STREAM_CLOUD], s->options.stockout_ppm))
        return NODE_REASON_STOCKOUT;
    return NODE_REASON_NONE;
}

static uint32_t machine_new(struct sim *s, uint64_t key, uint32_t offer)
{
    if (s->machine_count == SIM_MACHINES_MAX) {
        sim_fail(s, "bounds", "more than %u nodes were asked for", SIM_MACHINES_MAX);
        return 0;
    }
    uint32_t index = s->machine_count++;
    struct sim_machine *m = &s->machines[index];
    *m = (struct sim_machine){
        .key = key, .offer = offer, .created_us = s->now_us, .first_worker = UINT32_MAX};
    m->random = sim_random_fork(s->seed, 100000 + index);
    m->device_count = s->offers[offer].device_count;
    if (m->device_count > 1 && sim_random_chance(&m->random, s->options.short_machine_ppm))
        m->device_count--;
    sim_map_put(&s->machine_map, key, index);
    return index;
}

/* Machines of an older life of the server still run; only their agents tell. */
static void begin_strangers(struct sim *s)
{
    uint64_t newest = s->options.pool.incarnation;
    for (int64_t i = 0; i < s->options.stranger_count && s->offer_count > 0; i++) {
        /* One in two has a key that this server cannot have made: it must not be touched. */
        uint64_t incarnation = i % 2 == 0 ? newest - 1 : newest + 1;
        uint32_t machine = machine_new(s, (incarnation << SIM_KEY_SHIFT) + 1 + (uint64_t)i, 0);
        struct sim_machine *m = &s->machines[machine];
        m->stranger = true;
        s->offers[0].held++;
        move(s, machine, NODE_PHASE_PENDING, NODE_REASON_NONE);
        sim_later(s, SIM_SECOND_US, SIM_CLOUD, UP, 0, machine);
    }
}

static void begin(struct sim *s, uint32_t machine)
{
    struct sim_machine *m = &s->machines[machine];
    move(s, machine, NODE_PHASE_PENDING, NODE_REASON_NONE);
    m->phase_before = NODE_PHASE_ABSENT;
    s->offers[m->offer].held++;
    int64_t boot_us = sim_random_range(&m->random, SIM_SECOND_US, s->options.boot_us_max);
    sim_later(s, boot_us, SIM_CLOUD, UP, 0, machine);
    plan_fates(s, machine);
}

static void ensure(struct sim *s, const struct pool_command *command)
{
    int64_t found = sim_map_find(&s->machine_map, command->node_key);
    if (found != SIM_MAP_NONE) {
        sim_cloud_tell_node(s, (uint32_t)found);
        return;
    }
    uint32_t offer = 0;
    while (offer < s->offer_count && s->offers[offer].id != command->offer_id) offer++;
    if (offer == s->offer_count) {
        sim_fail(s, "commands", "a node of offer %" PRIu64 ", which nobody sells",
                 command->offer_id);
        return;
    }
    uint32_t machine = machine_new(s, command->node_key, offer);
    struct sim_machine *m = &s->machines[machine];
    uint32_t reason = refusal(s, &s->offers[offer], command->bid_usd_micros);
    m->bid_usd_micros = command->bid_usd_micros;
    m->ghost = reason == NODE_REASON_NONE && sim_faults_on(s) &&
               sim_random_chance(&m->random, s->options.ghost_start_ppm);
    if (reason == NODE_REASON_NONE)
        begin(s, machine);
    else
        move(s, machine, NODE_PHASE_REFUSED, reason);
    if (m->ghost) { /* says no, starts it all the same */
        struct pool_event event = observation(s, machine);
        event.u.node_observed.phase = NODE_PHASE_REFUSED;
        event.u.node_observed.reason = NODE_REASON_ERROR;
        send(s, &event);
        SIM_SAY(s, "cloud%u: refuses node %u, yet starts it", s->offers[offer].cloud,
                sim_shadow_node_number(s, m->key));
        return;
    }
    SIM_SAY(s, "cloud%u: %s node %u", s->offers[offer].cloud,
            reason == NODE_REASON_NONE ? "starts" : "refuses", sim_shadow_node_number(s, m->key));
    sim_cloud_tell_node(s, machine);
}

static void release(struct sim *s, const struct pool_command *command)
{
    int64_t found = sim_map_find(&s->machine_map, command->node_key);
    uint32_t machine = (uint32_t)found;
    if (found == SIM_MAP_NONE) {
        machine = machine_new(s, command->node_key, 0);
        move(s, machine, NODE_PHASE_ABSENT, NODE_REASON_RELEASED);
        s->machines[machine].tombstone = true;
    }
    struct sim_machine *m = &s->machines[machine];
    bool runs = m->phase == NODE_PHASE_UP || m->phase == NODE_PHASE_PENDING;
    if (runs && !m->ending) {
        int64_t end_us = sim_faults_on(s) && s->options.release_us_max > 0
                             ? sim_random_range(&m->random, 0, s->options.release_us_max)
                             : 0;
        m->ending = true;
        sim_later(s, end_us, SIM_CLOUD, END, 0, machine);
        if (end_us == 0) return; /* the end tells it */
    }
    sim_cloud_tell_node(s, machine);
}

static void sim_cloud_command(struct sim *s, const struct pool_command *command)
{
    int64_t found = sim_map_find(&s->machine_map, command->node_key);
    switch ((enum pool_command_kind)command->kind) {
    case POOL_COMMAND_ENSURE_NODE: ensure(s, command); return;
    case POOL_COMMAND_RELEASE_NODE: release(s, command); return;
    case POOL_COMMAND_OBSERVE_NODE:
        if (found != SIM_MAP_NONE) {
            tell_node_lagging(s, (uint32_t)found);
        } else {
            struct pool_event event = {.kind = POOL_EVENT_NODE_OBSERVED};
            event.u.node_observed.node_key = command->node_key;
            event.u.node_observed.phase = NODE_PHASE_ABSENT;
            event.u.node_observed.billed_usd_micros = 0;
            send(s, &event);
        }
        return;
    case POOL_COMMAND_ENSURE_WORKER:
    case POOL_COMMAND_STOP_WORKER:
    case POOL_COMMAND_KIND_END: break;
    }
    UNREACHABLE();
}

/* Its price is above what was offered for it: taken, with notice or without. */
static void take_outbid(struct sim *s, uint32_t offer)
{
    for (uint32_t i = 0; s->offers[offer].held > 0 && i < s->machine_count; i++) {
        struct sim_machine *m = &s->machines[i];
        bool outbid = m->offer == offer && m->bid_usd_micros != 0 && !m->outbid &&
                      s->offers[offer].usd_micros_per_hour > m->bid_usd_micros;
        if (!outbid) continue;
        m->outbid = true;
        sim_cloud_notice(s, i, notice_length_us(s, m));
    }
}

static void set_price(struct sim *s, uint32_t offer, int64_t usd_micros_per_hour)
{
    struct sim_offer *o = &s->offers[offer];
    if (o->usd_micros_per_hour == usd_micros_per_hour) return;
    for (uint32_t i = 0; o->held > 0 && i < s->machine_count; i++)
        if (s->machines[i].offer == offer) (void)sim_cloud_bill(s, i); /* at the old price */
    o->usd_micros_per_hour = usd_micros_per_hour;
    sim_cloud_tell_offer(s, offer);
    take_outbid(s, offer);
}

void sim_cloud_set_price(struct sim *s, uint32_t offer, int64_t usd_micros_per_hour)
{
    s->offers[offer].base_usd_micros_per_hour = usd_micros_per_hour;
    set_price(s, offer, usd_micros_per_hour);
}

static void walk_price(struct sim *s, uint32_t offer)
{
    struct sim_offer *o = &s->offers[offer];
    if (!sim_faults_on(s)) return;
    sim_later(s, s->options.price_us, SIM_CLOUD, PRICE, 0, offer);
    int64_t move_ppm = sim_random_range(&o->random, -WALK_PPM, WALK_PPM);
    if (o->jump_until_us > s->now_us) return;
    int64_t price = o->usd_micros_per_hour;
    price += price / PPM * move_ppm + price % PPM * move_ppm / PPM;
    price += (o->base_usd_micros_per_hour - price) / REVERSION_PART;
    set_price(s, offer, price < 1 ? 1 : price);
}

static void jump_price(struct sim *s, uint32_t offer)
{
    struct sim_offer *o = &s->offers[offer];
    if (!sim_faults_on(s)) return;
    sim_later(s, sim_random_exponential_us(&o->random, s->options.price_jump_mean_us), SIM_CLOUD,
              JUMP, 0, offer);
    o->jump_until_us = s->now_us + sim_random_range(&o->random, SIM_MINUTE_US, JUMP_US);
    int64_t share_ppm = sim_random_range(&o->random, 700000, 1300000);
    int64_t price = o->on_demand_usd_micros_per_hour / 1000 * (share_ppm / 1000);
    SIM_SAY(s, "cloud%u: offer %" PRIu64 " jumps to $%" PRId64 ".%02" PRId64 "/h", o->cloud, o->id,
            price / PPM, price % PPM / 10000);
    set_price(s, offer, price < 1 ? 1 : price);
}

static void stock_out(struct sim *s, uint32_t offer)
{
    struct sim_offer *o = &s->offers[offer];
    if (!sim_faults_on(s)) return;
    sim_later(s, sim_random_exponential_us(&o->random, s->options.stockout_mean_us), SIM_CLOUD,
              STOCKOUT, 0, offer);
    o->stockout_until_us = s->now_us + sim_random_range(&o->random, SIM_MINUTE_US, STOCKOUT_US);
    SIM_SAY(s, "cloud%u: offer %" PRIu64 " is out of stock", o->cloud, o->id);
    if (sim_random_chance(&o->random, 500000)) sim_cloud_tell_offer(s, offer); /* or found out */
}

static void come_up(struct sim *s, uint32_t machine)
{
    struct sim_machine *m = &s->machines[machine];
    if (m->phase != NODE_PHASE_PENDING) return;
    move(s, machine, NODE_PHASE_UP, NODE_REASON_NONE);
    m->up_since_us = s->now_us;
    m->metered_us = s->now_us;
    SIM_SAY(s, "cloud%u: node %u is up", s->offers[m->offer].cloud,
            sim_shadow_node_number(s, m->key));
    sim_cloud_tell_node(s, machine);
    sim_agent_boot(s, machine);
}

static void begin_preemption(struct sim *s, uint32_t machine)
{
    struct sim_machine *m = &s->machines[machine];
    if (!sim_faults_on(s)) return;
    sim_cloud_notice(s, machine, notice_length_us(s, m));
}

void sim_cloud_start(struct sim *s)
{
    for (uint32_t i = 0; i < s->offer_count; i++) {
        struct sim_offer *o = &s->offers[i];
        o->random = sim_random_fork(s->seed, 2000 + i);
        if (o->capacity == CAPACITY_SPOT && s->options.price_us > 0) {
            sim_later(s, s->options.price_us, SIM_CLOUD, PRICE, 0, i);
            if (s->options.price_jump_mean_us > 0)
                sim_later(s, sim_random_exponential_us(&o->random, s->options.price_jump_mean_us),
                          SIM_CLOUD, JUMP, 0, i);
        }
        if (s->options.stockout_mean_us > 0)
            sim_later(s, sim_random_exponential_us(&o->random, s->options.stockout_mean_us),
                      SIM_CLOUD, STOCKOUT, 0, i);
    }
    sim_later(s, POLL_US, SIM_CLOUD, POLL, 0, 0);
    begin_strangers(s);
}

void sim_cloud_heal(struct sim *s)
{
    for (uint32_t i = 0; i < s->offer_count; i++) {
        s->offers[i].jump_until_us = 0;
        s->offers[i].stockout_until_us = 0;
        set_price(s, i, s->offers[i].base_usd_micros_per_hour);
    }
}

static void poll(struct sim *s)
{
    sim_later(s, POLL_US, SIM_CLOUD, POLL, 0, 0);
    if (!s->server.up) return;
    for (uint32_t i = 0; i < s->offer_count; i++) sim_cloud_tell_offer(s, i);
}

void sim_cloud_on(struct sim *s, const struct sim_occurrence *o)
{
    uint32_t index = (uint32_t)o->value;
    switch ((enum cloud_what)o->what) {
    case COMMAND:
        sim_cloud_command(s, &s->messages[index].command);
        sim_message_free(s, index);
        return;
    case PRICE: walk_price(s, index); return;
    case JUMP: jump_price(s, index); return;
    case STOCKOUT: stock_out(s, index); return;
    case POLL: poll(s); return;
    case UP: come_up(s, index); return;
    case NOTICE: begin_preemption(s, index); return;
    case TAKE: sim_cloud_take(s, index, NODE_REASON_PREEMPTED); return;
    case CRASH:
        if (sim_faults_on(s) && s->machines[index].phase == NODE_PHASE_UP)
            sim_cloud_take(s, index, NODE_REASON_CRASHED);
        return;
    case END: sim_cloud_take(s, index, NODE_REASON_RELEASED); return;
    }
    UNREACHABLE();
}
