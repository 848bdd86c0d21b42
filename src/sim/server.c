/* The daemon as the world sees it: inbox, journal, core, commands; and its crashes.
 *
 * Order of one commit, as in the real server: stamp, append, commit, step each, run the commands,
 * answer who waits. A crash may strike before the commit, after it, or amid the commands.
 */
#include "base/mem.h"
#include "core/assert.h"
#include "sim/shadow.h"
#include "sim/world.h"
#include <inttypes.h>
#include <string.h>

enum server_what { RECEIVE, COMMIT, TICK, CRASH, RESTART, SNAPSHOT };

#define COMMIT_US      INT64_C(5000) /* a group commit of a fast disk */
#define RESTART_US_MAX (60 * SIM_SECOND_US)
#define SNAPSHOT_US    (5 * SIM_MINUTE_US)
#define TICKS_IN_PLACE UINT64_C(1000) /* steps "at once" in a row that nobody may need */
#define MESSAGE_NONE   UINT32_MAX
#define HASH_START     UINT64_C(0xcbf29ce484222325)

static uint64_t hash_word(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ (hash >> 29);
}

static uint64_t hash_words(uint64_t hash, const void *bytes, size_t count)
{
    ASSERT(count % sizeof(uint64_t) == 0);
    for (size_t i = 0; i < count; i += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, (const uint8_t *)bytes + i, sizeof word);
        hash = hash_word(hash, word);
    }
    return hash;
}

/* No padding in any of them, so their bytes are their fields. */
static_assert(sizeof(struct pool_command) == 80, "hashed as bytes");
static_assert(sizeof(struct pool_decision) == 64, "hashed as bytes");
static_assert(sizeof(struct ledger_entry) == 80, "hashed as bytes");

static uint64_t output_hash(const struct pool_output *out)
{
    uint64_t hash = hash_word(HASH_START, out->marks);
    hash = hash_words(hash, out->commands, out->command_count * sizeof out->commands[0]);
    hash = hash_words(hash, out->decisions, out->decision_count * sizeof out->decisions[0]);
    return hash_words(hash, out->entries, out->entry_count * sizeof out->entries[0]);
}

bool sim_server_open(struct sim *s)
{
    struct sim_server *server = &s->server;
    server->memory_bytes = pool_size(&s->options.pool.limits);
    server->memory = mem_alloc(server->memory_bytes);
    server->inbox = mem_zalloc(SIM_INBOX_MAX, sizeof *server->inbox);
    server->output = mem_zalloc(1, sizeof *server->output);
    server->output_hash_capacity = 4096;
    server->output_hashes = mem_zalloc(server->output_hash_capacity, sizeof(uint64_t));
    s->now_us = SIM_START_US;
    server->tick_us = SIM_NEVER_US;
    return server->memory != NULL && server->inbox != NULL && server->output != NULL &&
           server->output_hashes != NULL;
}

void sim_server_close(struct sim *s)
{
    mem_free(s->server.memory);
    mem_free(s->server.inbox);
    mem_free(s->server.output);
    mem_free(s->server.output_hashes);
    mem_free(s->server.journal);
    mem_free(s->server.snapshot);
}

static void plan_commit(struct sim *s)
{
    if (s->server.commit_planned) return;
    s->server.commit_planned = true;
    sim_later(s, COMMIT_US, SIM_SERVER, COMMIT, 0, 0);
}

static void inbox_add(struct sim *s, const struct pool_event *event, uint32_t message)
{
    struct sim_server *server = &s->server;
    if (server->inbox_count == SIM_INBOX_MAX) {
        sim_fail(s, "bounds", "more than %u events wait for one commit", SIM_INBOX_MAX);
        return;
    }
    server->inbox[server->inbox_count++] =
        (struct sim_inbox_item){.event = *event, .message = message};
    plan_commit(s);
}

void sim_server_tell(struct sim *s, const struct pool_event *event)
{
    if (s->server.up) inbox_add(s, event, MESSAGE_NONE);
}

/* The daemon keeps the name of every job it accepted, for ever: a submit that the core has
 * forgotten because it ended long ago is answered from there. */
static bool is_answered_from_names(const struct sim *s, const struct sim_message *m)
{
    struct job_view view;
    return m->kind == SIM_MESSAGE_SUBMIT && s->shadow->jobs[m->origin].admitted &&
           !pool_job_find(s->server.pool, m->origin + 1, &view);
}

static void sim_server_receive(struct sim *s, uint32_t message)
{
    const struct sim_message *m = &s->messages[message];
    if (s->server.up && is_answered_from_names(s, m)) {
        sim_client_acknowledged(s, message);
        return;
    }
    if (!s->server.up || s->server.inbox_count + m->count > SIM_INBOX_MAX) {
        sim_message_free(s, message); /* connection refused; who cares asks again */
        return;
    }
    for (uint32_t i = 0; i < m->count; i++)
        inbox_add(s, &m->events[i], i + 1 == m->count ? message : MESSAGE_NONE);
}

static void answer(struct sim *s, uint32_t message)
{
    const struct sim_message *m = &s->messages[message];
    switch ((enum sim_message_kind)m->kind) {
    case SIM_MESSAGE_REPORT: {
        struct node_view node;
        uint64_t key = s->machines[m->origin].key;
        bool leave = !pool_node_find(s->server.pool, key, &node);
        sim_agent_replied(s, message, leave || node.state == NODE_RELEASING);
        return;
    }
    case SIM_MESSAGE_SUBMIT:
    case SIM_MESSAGE_CANCEL: sim_client_acknowledged(s, message); return;
    case SIM_MESSAGE_EVENTS: break;
    case SIM_MESSAGE_COMMAND: UNREACHABLE();
    }
    sim_message_free(s, message);
}

static bool remember_hash(struct sim_server *server, uint64_t seq, uint64_t hash)
{
    if (seq >= server->output_hash_capacity) {
        size_t capacity = server->output_hash_capacity * 2;
        uint64_t *grown = mem_realloc(server->output_hashes, capacity * sizeof *grown);
        if (grown == NULL) return false;
        server->output_hashes = grown;
        server->output_hash_capacity = capacity;
    }
    server->output_hashes[seq] = hash;
    return true;
}

/* One event into the core. What the core says is judged the first time it is said; a replay must
 * say the very same again. */
static void step_core(struct sim *s, const struct pool_event *event)
{
    struct sim_server *server = &s->server;
    const char *complaint = pool_event_check(event);
    if (complaint != NULL) {
        sim_fail(s, "events", "the world made an event the core refuses: %s", complaint);
        return;
    }
    pool_step(server->pool, event, server->output);
    uint64_t hash = output_hash(server->output);
    if (event->seq <= server->stepped_seq) {
        if (hash != server->output_hashes[event->seq])
            sim_fail(s, "replay", "event %" PRIu64 " said something else when replayed",
                     event->seq);
        return;
    }
    ASSERT(event->seq == server->stepped_seq + 1);
    server->stepped_seq = event->seq;
    if (!remember_hash(server, event->seq, hash)) sim_fail(s, "memory", "out of memory");
    s->summary.events++;
    s->summary.marks |= server->output->marks;
    s->summary.decisions += server->output->decision_count;
    s->summary.digest = hash_word(hash_words(s->summary.digest, event, sizeof *event), hash);
    if (++server->step_count % s->options.check_every == 0) pool_check(server->pool);
    sim_shadow_step(s, event, server->output);
}

static void run_commands(struct sim *s, uint32_t count)
{
    ASSERT(count <= s->server.output->command_count);
    for (uint32_t i = 0; i < count; i++) sim_send_command(s, &s->server.output->commands[i]);
}

static void plan_tick(struct sim *s)
{
    struct sim_server *server = &s->server;
    if (server->inbox_count > 0) return; /* the coming commit plans it */
    int64_t wake_us = pool_next_wake_us(server->pool);
    if (wake_us == SIM_NEVER_US) return;
    server->ticks_in_place = wake_us <= s->now_us ? server->ticks_in_place + 1 : 0;
    if (server->ticks_in_place > TICKS_IN_PLACE) {
        sim_fail(s, "bounds", "the core wants to be stepped at once, %" PRIu64 " times in a row",
                 server->ticks_in_place);
        return;
    }
    int64_t at_us = wake_us <= s->now_us ? s->now_us : wake_us;
    if (server->tick_us == at_us) return;
    server->tick_us = at_us;
    sim_later(s, at_us - s->now_us, SIM_SERVER, TICK, 0, 0);
}

static bool append_inbox(struct sim *s)
{
    struct sim_server *server = &s->server;
    if (server->now_us < s->now_us) server->now_us = s->now_us;
    for (uint32_t i = 0; i < server->inbox_count; i++) {
        struct pool_event *event = &server->inbox[i].event;
        event->seq = ++server->appended_seq;
        event->now_us = server->now_us;
        event->version = POOL_CORE_VERSION;
        if (!sim_journal_append(server, event)) {
            sim_fail(s, "memory", "out of memory for the journal");
            return false;
        }
    }
    return true;
}

static void commit(struct sim *s)
{
    struct sim_server *server = &s->server;
    enum sim_crash crash = (enum sim_crash)server->crash_planned;
    server->crash_planned = SIM_CRASH_NONE;
    if (!append_inbox(s)) return;
    if (crash == SIM_CRASH_BEFORE_COMMIT) {
        sim_server_crash(s, crash);
        return;
    }
    server->journal_durable_bytes = server->journal_bytes;
    if (crash == SIM_CRASH_AFTER_COMMIT) {
        sim_server_crash(s, crash);
        return;
    }
    uint32_t count = server->inbox_count;
    for (uint32_t i = 0; i < count && !s->failed; i++) {
        step_core(s, &server->inbox[i].event);
        uint32_t commands = server->output->command_count;
        if (crash == SIM_CRASH_AMID_COMMANDS && i == count / 2) {
            run_commands(s, commands / 2);
            sim_server_crash(s, crash);
            return;
        }
        run_commands(s, commands);
        uint32_t message = server->inbox[i].message;
        server->inbox[i].message = MESSAGE_NONE;
        if (message != MESSAGE_NONE) answer(s, message);
    }
    server->inbox_count = 0;
    plan_tick(s);
}

void sim_server_crash(struct sim *s, enum sim_crash kind)
{
    static const char *const names[SIM_CRASH_COUNT] = {"none", "idle", "before the commit",
                                                       "after the commit", "amid its commands"};
    struct sim_server *server = &s->server;
    if (!server->up) return;
    SIM_SAY(s, "server: crashes %s", names[kind]);
    server->digest_before_crash = pool_digest(server->pool);
    for (uint32_t i = 0; i < server->inbox_count; i++)
        if (server->inbox[i].message != MESSAGE_NONE) sim_message_free(s, server->inbox[i].message);
    server->inbox_count = 0;
    server->up = false;
    server->tick_us = SIM_NEVER_US;
    struct sim_random *random = &s->random[SIM_STREAM_SERVER];
    sim_journal_tear(server, random, sim_random_chance(random, s->options.journal_tail_loss_ppm));
    memset(server->memory, 0xdd, server->memory_bytes); /* nothing of the old life may be read */
    sim_later(s, sim_random_range(random, SIM_SECOND_US, RESTART_US_MAX), SIM_SERVER, RESTART, 0,
              0);
}

static uint64_t restore_snapshot(struct sim *s)
{
    struct sim_server *server = &s->server;
    bool use = server->snapshot_bytes > 0 &&
               sim_random_chance(&s->random[SIM_STREAM_SERVER], /* nine of ten */ 900000);
    if (!use) return 0;
    if (pool_snapshot_read(server->pool, server->snapshot, server->snapshot_bytes))
        return server->snapshot_seq;
    sim_fail(s, "replay", "the snapshot at event %" PRIu64 " does not read back",
             server->snapshot_seq);
    return 0;
}

/* Brings the core back from the disk: snapshot or nothing, then every record after it. */
static void replay(struct sim *s)
{
    struct sim_server *server = &s->server;
    uint64_t stepped_before = server->stepped_seq;
    uint64_t from_seq = restore_snapshot(s);
    if (from_seq == stepped_before && from_seq > 0 &&
        pool_digest(server->pool) != server->digest_before_crash)
        sim_fail(s, "replay", "the snapshot restores another state");
    size_t offset = 0;
    struct pool_event event;
    server->appended_seq = from_seq;
    while (!s->failed && sim_journal_read(server, &offset, &event)) {
        server->appended_seq = event.seq;
        server->now_us = event.now_us;
        if (event.seq <= from_seq) continue;
        step_core(s, &event);
        if (event.seq == stepped_before && pool_digest(server->pool) != server->digest_before_crash)
            sim_fail(s, "replay", "event %" PRIu64 ": replayed to another digest", event.seq);
    }
    if (server->stepped_seq < stepped_before || offset < server->journal_durable_bytes)
        sim_fail(s, "replay", "committed events are gone from the journal");
    server->journal_bytes = offset;
    server->journal_durable_bytes = offset;
}

static void tell_definitions(struct sim *s)
{
    for (uint32_t i = 0; i < s->model_count; i++) sim_server_tell(s, &s->models[i]);
    for (uint32_t i = 0; i < s->pool_count; i++) sim_server_tell(s, &s->pools[i]);
    for (uint32_t i = 0; i < JOB_CLASS_END; i++)
        if (s->buying[i].kind != 0) sim_server_tell(s, &s->buying[i]); /* few worlds bid */
    for (uint32_t i = 0; i < SIM_LINKS_COUNT; i++)
        if (s->links[i].kind != 0) sim_server_tell(s, &s->links[i]); /* scenarios have none */
    for (uint32_t i = 0; i < SIM_WORKS_COUNT * s->model_count; i++)
        if (s->rates[i].kind != 0) sim_server_tell(s, &s->rates[i]);
    sim_server_tell(
        s, &(struct pool_event){.kind = POOL_EVENT_MATCHING_DEFINED,
                                .u.matching_defined = {.round_us = s->options.match_round_us}});
    for (uint32_t i = 0; i < s->offer_count; i++) sim_cloud_tell_offer(s, i);
}

void sim_server_start(struct sim *s, bool first)
{
    struct sim_server *server = &s->server;
    if (server->up || s->failed) return;
    server->pool = pool_init(server->memory, server->memory_bytes, &s->options.pool);
    if (!first) {
        replay(s);
        s->summary.crashes++;
        SIM_SAY(s, "server: back, %" PRIu64 " events replayed", server->appended_seq);
    }
    server->up = true;
    server->up_since_us = s->now_us;
    struct pool_event restarted = {.kind = POOL_EVENT_RESTARTED};
    if (!first) sim_server_tell(s, &restarted);
    tell_definitions(s);
    if (first) sim_later(s, SNAPSHOT_US, SIM_SERVER, SNAPSHOT, 0, 0);
    if (first && s->options.server_crash_mean_us > 0)
        sim_later(s,
                  sim_random_exponential_us(&s->random[SIM_STREAM_SERVER],
                                            s->options.server_crash_mean_us),
                  SIM_SERVER, CRASH, 0, 0);
    if (server->inbox_count == 0) plan_tick(s);
}

static void take_snapshot(struct sim *s)
{
    struct sim_server *server = &s->server;
    sim_later(s, SNAPSHOT_US, SIM_SERVER, SNAPSHOT, 0, 0);
    if (!server->up) return;
    size_t bytes = pool_snapshot_write(server->pool, server->snapshot, server->snapshot_capacity);
    if (bytes > server->snapshot_capacity) {
        uint8_t *grown = mem_realloc(server->snapshot, bytes * 2);
        if (grown == NULL) return; /* the older one stays good */
        server->snapshot = grown;
        server->snapshot_capacity = bytes * 2;
        bytes = pool_snapshot_write(server->pool, server->snapshot, server->snapshot_capacity);
    }
    ASSERT(bytes <= server->snapshot_capacity);
    server->snapshot_bytes = bytes;
    server->snapshot_seq = pool_last_seq(server->pool);
}

/* Strikes at once, or arms the next commit; then plans the next crash. */
static void on_crash(struct sim *s)
{
    if (!sim_faults_on(s)) return;
    struct sim_random *random = &s->random[SIM_STREAM_SERVER];
    enum sim_crash kind =
        (enum sim_crash)sim_random_range(random, SIM_CRASH_IDLE, SIM_CRASH_COUNT - 1);
    if (kind == SIM_CRASH_IDLE)
        sim_server_crash(s, kind);
    else
        s->server.crash_planned = kind;
    sim_later(s, sim_random_exponential_us(random, s->options.server_crash_mean_us), SIM_SERVER,
              CRASH, 0, 0);
}

void sim_server_heal(struct sim *s)
{
    s->server.crash_planned = SIM_CRASH_NONE;
    if (s->server.up)
        for (uint32_t i = 0; i < s->offer_count; i++) sim_cloud_tell_offer(s, i);
}

void sim_server_on(struct sim *s, const struct sim_occurrence *o)
{
    struct sim_server *server = &s->server;
    switch ((enum server_what)o->what) {
    case RECEIVE: sim_server_receive(s, (uint32_t)o->value); return;
    case COMMIT:
        server->commit_planned = false;
        if (server->up) commit(s);
        return;
    case TICK:
        if (!server->up || server->tick_us != o->at_us) return;
        server->tick_us = SIM_NEVER_US;
        sim_server_tell(s, &(struct pool_event){.kind = POOL_EVENT_TICK});
        return;
    case CRASH: on_crash(s); return;
    case RESTART: sim_server_start(s, /* first */ false); return;
    case SNAPSHOT: take_snapshot(s); return;
    }
    UNREACHABLE();
}
