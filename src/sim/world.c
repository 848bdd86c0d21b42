#include "sim/world.h"
#include "base/mem.h"
#include "core/assert.h"
#include "sim/shadow.h"
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

enum { MAP_SLOTS = 4 * SIM_WORKERS_MAX };

/* Rows are written whole when they come into use, so only the maps have to be zero: a seed is
 * short, and clearing megabytes for each would be a tenth of its time. */
static bool allocate(struct sim *s)
{
    struct sim_occurrence *items = mem_alloc(SIM_QUEUE_MAX * sizeof *items);
    struct sim_map_slot *machine_slots = mem_zalloc(MAP_SLOTS, sizeof *machine_slots);
    struct sim_map_slot *worker_slots = mem_zalloc(MAP_SLOTS, sizeof *worker_slots);
    s->machines = mem_alloc(SIM_MACHINES_MAX * sizeof *s->machines);
    s->workers = mem_alloc(SIM_WORKERS_MAX * sizeof *s->workers);
    s->messages = mem_alloc(SIM_MESSAGES_MAX * sizeof *s->messages);
    s->shadow = sim_shadow_open();
    s->queue.items = items;
    s->machine_map.slots = machine_slots;
    s->worker_map.slots = worker_slots;
    if (items == NULL || machine_slots == NULL || worker_slots == NULL) return false;
    if (s->machines == NULL || s->workers == NULL || s->messages == NULL) return false;
    if (s->shadow == NULL || !sim_server_open(s)) return false;
    sim_queue_init(&s->queue, items, SIM_QUEUE_MAX);
    sim_map_init(&s->machine_map, machine_slots, MAP_SLOTS);
    sim_map_init(&s->worker_map, worker_slots, MAP_SLOTS);
    s->message_free = UINT32_MAX;
    return true;
}

struct sim *sim_open_empty(uint64_t seed, const struct sim_options *options, FILE *trace)
{
    struct sim *s = mem_zalloc(1, sizeof *s);
    if (s == NULL) return NULL;
    s->seed = seed;
    s->options = *options;
    s->trace = trace;
    for (uint64_t i = 0; i < SIM_STREAM_COUNT; i++) s->random[i] = sim_random_fork(seed, i);
    if (!allocate(s)) {
        sim_close(s);
        return NULL;
    }
    return s;
}

void sim_begin(struct sim *s)
{
    sim_server_start(s, /* first */ true);
    sim_cloud_start(s);
    sim_client_start(s);
}

struct sim *sim_open(uint64_t seed, const struct sim_options *options, FILE *trace)
{
    struct sim *s = sim_open_empty(seed, options, trace);
    if (s == NULL) return NULL;
    sim_draw_world(s);
    sim_begin(s);
    return s;
}

void sim_close(struct sim *s)
{
    if (s == NULL) return;
    sim_server_close(s);
    sim_shadow_close(s->shadow);
    mem_free(s->queue.items);
    mem_free(s->machine_map.slots);
    mem_free(s->worker_map.slots);
    mem_free(s->machines);
    mem_free(s->workers);
    mem_free(s->messages);
    mem_free(s);
}

bool sim_step(struct sim *s)
{
    struct sim_occurrence o;
    if (s->failed || !sim_queue_pop(&s->queue, &o)) return false;
    ASSERT(o.at_us >= s->now_us);
    s->now_us = o.at_us;
    switch ((enum sim_actor)o.actor) {
    case SIM_SERVER: sim_server_on(s, &o); break;
    case SIM_CLOUD: sim_cloud_on(s, &o); break;
    case SIM_AGENT: sim_agent_on(s, &o); break;
    case SIM_CLIENT: sim_client_on(s, &o); break;
    case SIM_SCRIPT: sim_script_on(s, &o); break;
    case SIM_STALL: sim_stall_on(s, &o); break;
    case SIM_ACTOR_END: UNREACHABLE();
    }
    return !s->failed;
}

void sim_heal(struct sim *s)
{
    SIM_SAY(s, "--- heal: every fault is off, what is owed must now come true");
    s->healed_us = s->now_us;
    s->options.delay_us_max = s->options.delay_us_min;
    sim_cloud_heal(s);
    sim_agent_heal(s);
    sim_client_heal(s);
    sim_server_heal(s);
}

bool sim_faults_on(const struct sim *s)
{
    return s->healed_us == 0;
}
int64_t sim_now_us(const struct sim *s)
{
    return s->now_us;
}
void sim_summarize(const struct sim *s, struct sim_summary *ret_summary)
{
    *ret_summary = s->summary;
    ret_summary->failed = s->failed;
    ret_summary->nodes = s->machine_count;
    ret_summary->simulated_us = s->now_us - SIM_START_US;
}

void sim_later(struct sim *s, int64_t delay_us, uint32_t actor, uint32_t what, uint64_t key,
               uint64_t value)
{
    ASSERT(delay_us >= 0);
    struct sim_occurrence o = {
        .at_us = s->now_us + delay_us, .actor = actor, .what = what, .key = key, .value = value};
    if (!sim_queue_push(&s->queue, o))
        sim_fail(s, "bounds", "the queue of the world is full (%u occurrences)", SIM_QUEUE_MAX);
}

struct sim_message *sim_message_new(struct sim *s, uint32_t kind, uint32_t *ret_index)
{
    uint32_t index = s->message_free;
    if (index != UINT32_MAX) {
        s->message_free = s->messages[index].next_free;
    } else {
        if (s->message_count == SIM_MESSAGES_MAX) {
            sim_fail(s, "bounds", "more than %u messages are under way", SIM_MESSAGES_MAX);
            s->message_count--; /* the run is over; the newest slot is overwritten */
        }
        index = s->message_count++;
    }
    struct sim_message *message = &s->messages[index];
    message->kind = kind;
    message->count = message->origin = 0;
    message->command = (struct pool_command){0};
    *ret_index = index;
    return message;
}

void sim_message_free(struct sim *s, uint32_t index)
{
    s->messages[index].next_free = s->message_free;
    s->message_free = index;
}

static int64_t network_delay_us(struct sim *s)
{
    struct sim_random *random = &s->random[SIM_STREAM_NETWORK];
    int64_t delay_us = sim_random_range(random, s->options.delay_us_min, s->options.delay_us_max);
    if (sim_faults_on(s) && sim_random_chance(random, s->options.reply_late_ppm))
        delay_us += sim_random_range(random, 0, s->options.late_us_max);
    return delay_us;
}

static uint32_t copy_message(struct sim *s, uint32_t original)
{
    uint32_t copy;
    struct sim_message *message = sim_message_new(s, s->messages[original].kind, &copy);
    uint32_t next_free = message->next_free;
    *message = s->messages[original];
    message->next_free = next_free;
    return copy;
}

void sim_send_to_server(struct sim *s, uint32_t message)
{
    struct sim_random *random = &s->random[SIM_STREAM_NETWORK];
    if (sim_faults_on(s)) {
        if (sim_random_chance(random, s->options.reply_loss_ppm)) {
            SIM_SAY(s, "network: a message to the server is lost");
            sim_message_free(s, message);
            return;
        }
        if (sim_random_chance(random, s->options.reply_copy_ppm))
            sim_later(s, network_delay_us(s), SIM_SERVER, /* receive */ 0, 0,
                      copy_message(s, message));
    }
    sim_later(s, network_delay_us(s), SIM_SERVER, /* receive */ 0, 0, message);
}

static void deliver_command(struct sim *s, const struct pool_command *command)
{
    uint32_t index;
    struct sim_message *message = sim_message_new(s, SIM_MESSAGE_COMMAND, &index);
    message->command = *command;
    bool for_agent =
        command->kind == POOL_COMMAND_ENSURE_WORKER || command->kind == POOL_COMMAND_STOP_WORKER;
    sim_later(s, network_delay_us(s), for_agent ? SIM_AGENT : SIM_CLOUD, /* command */ 0, 0, index);
}

void sim_send_command(struct sim *s, const struct pool_command *command)
{
    struct sim_random *random = &s->random[SIM_STREAM_NETWORK];
    if (sim_faults_on(s)) {
        if (sim_random_chance(random, s->options.command_loss_ppm)) {
            SIM_SAY(s, "network: the command is lost");
            return;
        }
        if (sim_random_chance(random, s->options.command_copy_ppm)) deliver_command(s, command);
    }
    deliver_command(s, command);
}

void sim_fail(struct sim *s, const char *checker, const char *format, ...)
{
    if (s->failed) return;
    s->failed = true;
    (void)snprintf(s->summary.checker, sizeof s->summary.checker, "%s", checker);
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(s->summary.failure, sizeof s->summary.failure, format, arguments);
    va_end(arguments);
    SIM_SAY(s, "FAILED %s: %s", checker, s->summary.failure);
}

void sim_say(struct sim *s, const char *format, ...)
{
    int64_t tenths = (s->now_us - SIM_START_US) / (SIM_SECOND_US / 10);
    (void)fprintf(s->trace, "[%6" PRId64 ".%" PRId64 "] ", tenths / 10, tenths % 10);
    va_list arguments;
    va_start(arguments, format);
    (void)vfprintf(s->trace, format, arguments);
    va_end(arguments);
    (void)fputc('\n', s->trace);
}
