/* The true world of one simulation, and the calls by which its actors meet. Inside src/sim only.
 *
 * Reading order: world.c (time), server.c (journal, core, crashes), cloud.c (machines, prices),
 * agent.c (agents and workers), client.c (jobs, operator), shadow.h and check_*.c (what must hold).
 */
#ifndef SHOAL_SIM_WORLD_H
#define SHOAL_SIM_WORLD_H

#include "core/output.h"
#include "core/view.h"
#include "sim/map.h"
#include "sim/queue.h"
#include "sim/random.h"
#include "sim/sim.h"

enum {
    SIM_MACHINES_MAX = 4096, /* nodes ever asked for in one run; more is a failure (thrash) */
    SIM_WORKERS_MAX = 8192,  /* workers ever asked for in one run; likewise */
    SIM_JOBS_MAX = 16,
    SIM_OFFERS_MAX = 24,
    SIM_MODELS_MAX = 4,
    SIM_MESSAGES_MAX = 4096, /* under way at once */
    SIM_QUEUE_MAX = 32768,
    SIM_BUNDLE_MAX = 10, /* events of one agent report: itself and its workers */
    SIM_INBOX_MAX = 512, /* events of one commit */
    SIM_POOLS_COUNT = 2,
    SIM_WORKS_COUNT = 3,
    SIM_LINKS_COUNT = 3, /* as many as there are regions */
    SIM_KEY_SHIFT = 40,  /* node keys are incarnation << 40 | number */
};

#define SIM_SECOND_US INT64_C(1000000)
#define SIM_MINUTE_US (60 * SIM_SECOND_US)
#define SIM_HOUR_US   (60 * SIM_MINUTE_US)
#define SIM_NEVER_US  INT64_MAX
#define SIM_START_US                                                                               \
    INT64_C(1000000000000) /* no moment of a run may be 0, which means "not known" */

enum sim_actor {
    SIM_SERVER = 1,
    SIM_CLOUD,
    SIM_AGENT,
    SIM_CLIENT,
    SIM_SCRIPT,
    SIM_STALL,
    SIM_ACTOR_END
};

/* Streams of the random tree. A machine, offer or job has its own streams on top of these. */
enum sim_stream {
    SIM_STREAM_NETWORK,
    SIM_STREAM_CLOUD,
    SIM_STREAM_AGENT,
    SIM_STREAM_CLIENT,
    SIM_STREAM_SERVER,
    SIM_STREAM_COUNT
};

/* What a cloud sells. `told` lives in the shadow: the world knows the truth only. */
struct sim_offer {
    uint64_t id;
    uint32_t cloud, region, zone, rack, model, capacity, device_count; /* rack 0: not known */
    int64_t on_demand_usd_micros_per_hour, base_usd_micros_per_hour, usd_micros_per_hour;
    int64_t jump_until_us, stockout_until_us;
    uint32_t stock, held, hazard_ppm;
    uint32_t overbill_ppm; /* billed on top of the quoted price */
    struct sim_random random;
};

struct sim_machine {
    uint64_t key;
    uint32_t offer; /* index */
    uint32_t phase, reason;
    uint32_t phase_before; /* what a lagging list still shows */
    int64_t changed_us, created_us, up_since_us, notice_us, gone_us;
    int64_t billed_usd_micros, billed_rest, metered_us; /* rest: in micro-dollar-microseconds/h */
    bool ghost, tombstone, stranger, ending, agent_running;
    int64_t lease_until_us, silent_until_us, drift_ppm;
    int64_t bid_usd_micros; /* taken when its price is above; 0: at no price */
    bool outbid;
    uint32_t first_worker, device_count; /* list of its workers, newest first; UINT32_MAX: none */
    struct sim_random random;
};

struct sim_worker {
    uint64_t id, job_id, key;
    uint32_t machine, phase, device_count, next; /* next: on the same machine */
    uint32_t stall_kind;                         /* 0: it moves */
    int64_t stall_from_us, stall_until_us; /* from: the first time it held its job up; 0: never */
    int32_t exit_code;
    bool acknowledged; /* its end was heard by the server */
};

struct sim_job {
    struct pool_event submit;
    struct pool_event terms; /* sent before it; kind 0: it has none */
    int64_t submit_us, cancel_us, repeat_us;
    int64_t work_us, done_us, ckpt_us; /* device-time needed, done, safe */
    int64_t advanced_us;
    uint32_t running_devices, running_workers;
    bool submitted, acknowledged, cancel_wanted, cancel_acknowledged, formed, complete;
    struct sim_random random;
};

enum sim_message_kind {
    SIM_MESSAGE_EVENTS = 1,
    SIM_MESSAGE_REPORT,
    SIM_MESSAGE_SUBMIT,
    SIM_MESSAGE_CANCEL,
    SIM_MESSAGE_COMMAND
};

struct sim_message {
    uint32_t kind, count;
    uint32_t origin; /* machine index of a report, job index of a submit or cancel */
    uint32_t next_free;
    struct pool_command command;
    struct pool_event events[SIM_BUNDLE_MAX];
};

enum sim_crash {
    SIM_CRASH_NONE,
    SIM_CRASH_IDLE,
    SIM_CRASH_BEFORE_COMMIT,
    SIM_CRASH_AFTER_COMMIT,
    SIM_CRASH_AMID_COMMANDS,
    SIM_CRASH_COUNT
};

struct sim_inbox_item {
    struct pool_event event;
    uint32_t message; /* to answer after the commit; UINT32_MAX: nobody waits */
    uint32_t reserved;
};

struct sim_server {
    bool up, commit_planned;
    uint32_t crash_planned; /* enum sim_crash: strikes at the next commit */
    pool *pool;
    void *memory;
    size_t memory_bytes;
    int64_t tick_us; /* when the planned tick comes; SIM_NEVER_US: none */
    uint64_t ticks_in_place;
    struct sim_inbox_item *inbox;
    uint32_t inbox_count, step_count;
    uint8_t *journal;
    size_t journal_bytes, journal_durable_bytes, journal_capacity;
    uint64_t *output_hashes; /* by seq: a replay must say the same again */
    size_t output_hash_capacity;
    uint8_t *snapshot;
    size_t snapshot_bytes, snapshot_capacity;
    uint64_t snapshot_seq, appended_seq, stepped_seq;
    uint64_t digest_before_crash;
    int64_t up_since_us;
    int64_t now_us; /* of the newest event; never goes back */
    struct pool_output *output;
};

struct sim_shadow;

struct sim {
    uint64_t seed;
    struct sim_options options;
    int64_t now_us;
    int64_t healed_us; /* 0: not yet */
    bool failed, drained;
    FILE *trace;
    struct sim_queue queue;
    struct sim_random random[SIM_STREAM_COUNT];
    struct sim_server server;
    struct sim_shadow *shadow;
    struct pool_event models[SIM_MODELS_MAX], pools[SIM_POOLS_COUNT];
    struct pool_event buying[JOB_CLASS_END];                   /* BUYING_DEFINED with a bid */
    struct pool_event links[SIM_LINKS_COUNT];                  /* LINKS_TOLD, of each region */
    struct pool_event rates[SIM_WORKS_COUNT * SIM_MODELS_MAX]; /* of each model, by work */
    struct sim_offer offers[SIM_OFFERS_MAX];
    struct sim_job jobs[SIM_JOBS_MAX];
    uint32_t model_count, pool_count, offer_count, job_count;
    struct sim_machine *machines;
    struct sim_worker *workers;
    struct sim_message *messages;
    struct sim_map machine_map, worker_map;
    uint32_t machine_count, worker_count, message_free, message_count;
    uint32_t drop_replies;         /* scenario: the next n answers of clouds are lost */
    struct sim_scenario *scenario; /* NULL: the seed tells all */
    struct sim_summary summary;
};

/* world.c: time, messages, failures. */
struct sim *sim_open_empty(uint64_t seed, const struct sim_options *options, FILE *trace);
void sim_begin(struct sim *s); /* after the world was filled */
void sim_later(struct sim *s, int64_t delay_us, uint32_t actor, uint32_t what, uint64_t key,
               uint64_t value);
struct sim_message *sim_message_new(struct sim *s, uint32_t kind, uint32_t *ret_index);
void sim_message_free(struct sim *s, uint32_t index);
/* Sends to the server through a network that loses, copies and delays. */
void sim_send_to_server(struct sim *s, uint32_t message);
/* Sends a command to a cloud or an agent through the same network. */
void sim_send_command(struct sim *s, const struct pool_command *command);
void sim_fail(struct sim *s, const char *checker, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void sim_say(struct sim *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define SIM_SAY(s, ...) ((s)->trace == NULL ? (void)0 : sim_say((s), __VA_ARGS__))
bool sim_faults_on(const struct sim *s);

/* scenario.c: what its author planned. */
void sim_script_on(struct sim *s, const struct sim_occurrence *o);

/* draw.c: what a seed contains. */
void sim_draw_world(struct sim *s);

/* server.c */
bool sim_server_open(struct sim *s);
void sim_server_close(struct sim *s);
void sim_server_start(struct sim *s, bool first);
void sim_server_on(struct sim *s, const struct sim_occurrence *o);
void sim_server_tell(struct sim *s, const struct pool_event *event); /* from within the server */
void sim_server_crash(struct sim *s, enum sim_crash kind);
void sim_server_heal(struct sim *s);

/* journal.c: encoded records in memory, a durable part and a tail. */
bool sim_journal_append(struct sim_server *server, const struct pool_event *event);
/* Tears what was not committed. */
void sim_journal_tear(struct sim_server *server, struct sim_random *random, bool torn);
/* Reads the record at *offset; false at the end or at the first bad record. */
bool sim_journal_read(const struct sim_server *server, size_t *offset,
                      struct pool_event *ret_event);

/* cloud.c */
void sim_cloud_on(struct sim *s, const struct sim_occurrence *o);
void sim_cloud_start(struct sim *s);
void sim_cloud_heal(struct sim *s);
void sim_cloud_tell_offer(struct sim *s, uint32_t offer);
void sim_cloud_take(struct sim *s, uint32_t machine, uint32_t reason); /* the machine is gone */
void sim_cloud_notice(struct sim *s, uint32_t machine, int64_t in_us);
void sim_cloud_set_price(struct sim *s, uint32_t offer, int64_t usd_micros_per_hour);

/* stall.c */
void sim_stall_on(struct sim *s, const struct sim_occurrence *o);
void sim_stall_expect(struct sim *s, uint32_t worker); /* the fault strikes at some time */
void sim_stall_begin(struct sim *s, uint32_t worker, uint32_t kind, int64_t for_us);

/* agent.c */
void sim_agent_on(struct sim *s, const struct sim_occurrence *o);
void sim_agent_boot(struct sim *s, uint32_t machine);
void sim_agent_replied(struct sim *s, uint32_t message, bool leave);
void sim_agent_machine_gone(struct sim *s, uint32_t machine); /* all on it died */
void sim_agent_heal(struct sim *s);

/* client.c */
void sim_client_on(struct sim *s, const struct sim_occurrence *o);
void sim_client_start(struct sim *s);
void sim_client_acknowledged(struct sim *s, uint32_t message);
void sim_client_heal(struct sim *s);
void sim_client_cancel(struct sim *s, uint32_t job);
void sim_client_submit_again(struct sim *s, uint32_t job);
void sim_job_advance(struct sim *s, struct sim_job *job); /* work done up to now */
/* owed.c: whether what is on sale in calm can surely run the job (some that can are not surely). */
bool sim_machine_may_stay(const struct sim *s, uint32_t machine);
bool sim_job_possible(const struct sim *s, const struct sim_job *job);
struct sim_job *sim_job_find(struct sim *s, uint64_t job_id);

#endif
