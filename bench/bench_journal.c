/* The daemon against what it stands on, on the same disk in the same run (medians of 3 pairs):
 *
 * journal_commits.vs_sqlite   durable submissions/s of a real server, 64 connections, against
 *                             SQLite itself: WAL, synchronous=FULL, one row of the same size a
 *                             transaction.
 * journal_commits.vs_grouped  the same against SQLite with 64 rows a transaction: the limit.
 * api_reads.vs_bare           GET /v1/jobs/1, 32 connections, against a bare libmicrohttpd that
 *                             answers as many bytes.
 * server_restart_ms           start on a journal of 100,000 events without a snapshot (five times
 *                             what a running server leaves), against the budget of 1 s.
 *
 *     bench_journal [PATH OF shoal]      default: ../shoal beside this program
 */
#include "base/clock.h"
#include "base/mem.h"
#include "http_load.h"
#include "median.h"
#include "server/journal.h"
#include <inttypes.h>
#include <libgen.h>
#include <microhttpd.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    RUNS = 3,
    SUBMISSIONS = 3000,
    SUBMIT_CONNECTIONS = 64,
    READS = 30000,
    READ_CONNECTIONS = 32,
    SQLITE_ROWS = 3000,
    ROW_BYTES = 600, /* event, job, spec and decision of one submission */
    RESTART_EVENTS = 100000,
    RESTART_BUDGET_MS = 1000,
    PATH_BYTES = 512,
    LINE_BYTES = 512,
    REQUEST_BYTES = 2048,
};

struct bench {
    char program[PATH_BYTES], dir[PATH_BYTES];
    pid_t server;
    int port;
    char token[65];
};

static _Noreturn void give_up(const char *what)
{
    fprintf(stderr, "bench_journal: %s\n", what);
    exit(1);
}

static void write_text(const char *dir, const char *name, const char *text)
{
    char path[2 * PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "we");
    if (file == NULL || fputs(text, file) < 0 || fclose(file) != 0) give_up("cannot write");
}

static void run_command(const char *command)
{
    if (system(command) != 0) give_up(command);
}

static void make_dir(struct bench *b)
{
    char *dir = getenv("TMPDIR");
    (void)snprintf(b->dir, sizeof b->dir, "%.200s/shoal-bench-XXXXXX", dir != NULL ? dir : "out");
    if (mkdtemp(b->dir) == NULL) give_up("cannot make a folder under out/; run from the root");
    write_text(b->dir, "shoal.yaml",
               "providers: [{name: local, driver: local, scenario: market.yaml}]\n");
    write_text(b->dir, "market.yaml",
               "zones:\n  a/b: {region: east, notice: 0s, boot: {min: 3600s, max: 3600s}}\n"
               "offers:\n  - {zone: a/b, model: A10, devices: 1, kind: on_demand, on_demand: 1.0, "
               "stock: 1}\n");
}

static void remove_dir(struct bench *b)
{
    char command[PATH_BYTES + 16];
    (void)snprintf(command, sizeof command, "rm -rf '%s'", b->dir);
    run_command(command);
}

/* Starts the server on data folder `name`; returns the milliseconds until it says it serves. */
static int64_t start_server(struct bench *b, const char *name)
{
    char data[2 * PATH_BYTES], config[2 * PATH_BYTES], line[LINE_BYTES] = "";
    int out[2];
    (void)snprintf(data, sizeof data, "%s/%s", b->dir, name);
    (void)snprintf(config, sizeof config, "%s/shoal.yaml", b->dir);
    if (pipe(out) != 0) give_up("no pipe");
    int64_t started_us = clock_monotonic_us();
    b->server = fork();
    if (b->server == 0) {
        (void)dup2(out[1], 1); /* a failure shows in the line that does not come */
        execl(b->program, "shoal", "server", "--config", config, "--data", data, "--listen",
              "127.0.0.1:0", (char *)NULL);
        _exit(127);
    }
    (void)close(out[1]);
    FILE *said = fdopen(out[0], "re");
    if (said == NULL || fgets(line, sizeof line, said) == NULL) give_up("the server did not start");
    int64_t took_us = clock_monotonic_us() - started_us;
    (void)fclose(said);
    const char *port = strstr(line, "127.0.0.1:");
    if (port == NULL) give_up(line);
    b->port = atoi(port + strlen("127.0.0.1:"));
    (void)snprintf(config, sizeof config, "%.1000s/token", data);
    FILE *token = fopen(config, "re");
    if (token == NULL || fgets(b->token, sizeof b->token, token) == NULL) give_up("no token");
    (void)fclose(token);
    return took_us / 1000;
}

static void stop_server(struct bench *b)
{
    (void)kill(b->server, SIGTERM);
    (void)waitpid(b->server, NULL, 0);
}

static void print_row(const char *name, int64_t value, const char *unit, const char *peer,
                      int64_t peer_value, const char *better)
{
    printf("{\"name\": \"%s\", \"value\": %" PRId64 ", \"unit\": \"%s\", \"peer\": \"%s\", "
           "\"peer_value\": %" PRId64 ", \"ratio\": %.3f, \"better\": \"%s\", \"runs\": %d}\n",
           name, value, unit, peer, peer_value, (double)value / (double)peer_value, better, RUNS);
    (void)fflush(stdout);
}

static int64_t median(int64_t values[RUNS])
{
    int64_t value = median_of_integers(values, RUNS);
    if (values[0] <= 0) give_up("a run failed");
    return value;
}

/* The peers. */

static int64_t sqlite_rows_per_s(struct bench *b, int rows_per_transaction)
{
    char path[2 * PATH_BYTES];
    sqlite3 *db = NULL;
    sqlite3_stmt *insert = NULL;
    uint8_t row[ROW_BYTES] = {0};
    (void)snprintf(path, sizeof path, "%s/peer.db", b->dir);
    if (sqlite3_open(path, &db) != SQLITE_OK ||
        sqlite3_exec(db,
                     "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; DROP TABLE IF EXISTS t;"
                     "CREATE TABLE t(id INTEGER PRIMARY KEY, row BLOB)",
                     NULL, NULL, NULL) != SQLITE_OK ||
        sqlite3_prepare_v2(db, "INSERT INTO t(row) VALUES (?1)", -1, &insert, NULL) != SQLITE_OK)
        give_up("the SQLite peer did not start");
    int rows = rows_per_transaction == 1 ? SQLITE_ROWS : SQLITE_ROWS * 8;
    int64_t started_us = clock_monotonic_us();
    for (int i = 0; i < rows; i += rows_per_transaction) {
        (void)sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL); /* COMMIT fails if it did */
        for (int k = 0; k < rows_per_transaction; k++) {
            (void)sqlite3_bind_blob(insert, 1, row, sizeof row, SQLITE_STATIC);
            (void)sqlite3_step(insert);
            (void)sqlite3_reset(insert);
        }
        if (sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK) give_up("SQLite failed");
    }
    int64_t took_us = clock_monotonic_us() - started_us;
    (void)sqlite3_finalize(insert);
    (void)sqlite3_close(db);
    return (int64_t)rows * 1000000 / took_us;
}

static char bare_text[600]; /* about the size of the row of a job */

static enum MHD_Result on_bare(void *cls, struct MHD_Connection *connection, const char *url,
                               const char *method, const char *version, const char *data,
                               size_t *bytes, void **context)
{
    (void)url, (void)method, (void)version, (void)data, (void)bytes;
    if (*context == NULL) { /* headers only: an answer now would end the connection */
        *context = cls;
        return MHD_YES;
    }
    return MHD_queue_response(connection, MHD_HTTP_OK, cls);
}

static int64_t bare_reads_per_s(const char *request)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(sizeof bare_text - 1, bare_text, MHD_RESPMEM_PERSISTENT);
    struct MHD_Daemon *daemon = MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD, 0, NULL, NULL,
                                                 on_bare, response, MHD_OPTION_END);
    if (daemon == NULL) give_up("the bare HTTP server did not start");
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT);
    int64_t rate = http_load_run(&(struct http_load){.port = info->port,
                                                     .connection_count = READ_CONNECTIONS,
                                                     .request_count = READS,
                                                     .request = request,
                                                     .status = 200});
    MHD_stop_daemon(daemon);
    MHD_destroy_response(response);
    return rate;
}

/* The rows. */

static void make_request(const struct bench *b, const char *line, const char *body,
                         char request[REQUEST_BYTES])
{
    (void)snprintf(request, REQUEST_BYTES,
                   "%s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"
                   "Content-Length: %zu\r\n\r\n%s",
                   line, b->token, strlen(body), body);
}

static int64_t submissions_per_s(struct bench *b)
{
    char request[REQUEST_BYTES];
    make_request(b, "POST /v1/jobs",
                 "name: bench\nkind: batch\nneeds: {devices: {min: 1, max: 1}}\n"
                 "run: {command: [sleep, \"3600\"], dir: /}\n",
                 request);
    return http_load_run(&(struct http_load){.port = b->port,
                                             .connection_count = SUBMIT_CONNECTIONS,
                                             .request_count = SUBMISSIONS,
                                             .request = request,
                                             .status = 201});
}

static void bench_commits(struct bench *b)
{
    int64_t ours[RUNS], single[RUNS], grouped[RUNS];
    for (int i = 0; i < RUNS; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "commits-%d", i);
        (void)start_server(b, name);
        (void)usleep(200000); /* the first offers come by themselves; nobody is hurt if not */
        ours[i] = submissions_per_s(b);
        stop_server(b);
        single[i] = sqlite_rows_per_s(b, 1);
        grouped[i] = sqlite_rows_per_s(b, SUBMIT_CONNECTIONS);
    }
    int64_t value = median(ours);
    print_row("journal_commits.vs_sqlite", value, "submissions/s", "sqlite 1 row/transaction",
              median(single), "higher");
    print_row("journal_commits.vs_grouped", value, "submissions/s", "sqlite 64 rows/transaction",
              median(grouped), "higher");
}

static void bench_reads(struct bench *b)
{
    char request[REQUEST_BYTES];
    int64_t ours[RUNS], bare[RUNS];
    memset(bare_text, 'x', sizeof bare_text - 1);
    (void)start_server(b, "commits-0");
    make_request(b, "GET /v1/jobs/1", "", request);
    for (int i = 0; i < RUNS; i++) {
        ours[i] = http_load_run(&(struct http_load){.port = b->port,
                                                    .connection_count = READ_CONNECTIONS,
                                                    .request_count = READS,
                                                    .request = request,
                                                    .status = 200});
        bare[i] = bare_reads_per_s(request);
    }
    stop_server(b);
    print_row("api_reads.vs_bare", median(ours), "requests/s", "bare libmicrohttpd", median(bare),
              "higher");
}

/* Prices that move: the most frequent event of a real journal beside agents' reports. */
static void make_journal(struct bench *b, const char *name)
{
    char path[2 * PATH_BYTES];
    struct batch batch;
    uint64_t seq = 0;
    (void)start_server(b, name); /* makes folder, tokens and the core's configuration */
    stop_server(b);
    (void)snprintf(path, sizeof path, "%s/%s/journal.db", b->dir, name);
    journal *j = journal_open(&(struct journal_options){.path = path}, NULL);
    struct sqlite3_stmt *query =
        j == NULL ? NULL : journal_query(j, "SELECT max(seq) FROM events", NULL);
    if (query == NULL || !journal_row(query)) give_up("cannot read the journal just made");
    seq = (uint64_t)sqlite3_column_int64(query, 0);
    journal_reset(query);
    batch_init(&batch);
    int64_t now_us = clock_wall_us();
    for (uint32_t i = 0; i < RESTART_EVENTS; i++) {
        struct pool_event *event = array_push(&batch.events);
        if (event == NULL) give_up("out of memory");
        *event = (struct pool_event){.seq = ++seq,
                                     .now_us = now_us + i,
                                     .kind = POOL_EVENT_OFFER_CHANGED,
                                     .version = POOL_CORE_VERSION};
        event->u.offer_changed.offer_id = 1 + i % 64;
        event->u.offer_changed.usd_micros_per_hour = 1000000 + i;
        event->u.offer_changed.on_demand_usd_micros_per_hour = 2000000;
        event->u.offer_changed.provider = event->u.offer_changed.region = 1;
        event->u.offer_changed.zone = 1 + i % 8;
        event->u.offer_changed.capacity = CAPACITY_SPOT;
        event->u.offer_changed.device_count = 1;
        event->u.offer_changed.stock_count = 4;
    }
    if (!journal_commit(j, &batch, NULL)) give_up("cannot write the journal");
    batch_free(&batch);
    journal_close(j);
}

static void bench_restart(struct bench *b)
{
    int64_t took_ms[RUNS];
    for (int i = 0; i < RUNS; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "restart-%d", i);
        make_journal(b, name);
        took_ms[i] = start_server(b, name);
        stop_server(b);
    }
    print_row("server_restart_ms", median(took_ms), "ms", "budget", RESTART_BUDGET_MS, "lower");
}

int main(int argc, char **argv)
{
    struct bench b = {0};
    char self[PATH_BYTES];
    (void)snprintf(self, sizeof self, "%s", argv[0]);
    (void)snprintf(b.program, sizeof b.program, "%.400s/../shoal", dirname(self));
    if (argc > 1) (void)snprintf(b.program, sizeof b.program, "%s", argv[1]);
    make_dir(&b);
    bench_commits(&b);
    bench_reads(&b);
    bench_restart(&b);
    remove_dir(&b);
    return 0;
}
