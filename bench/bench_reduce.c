/* All-reduce over TCP loopback: the exact form of src/worker/core/exchange.h against the same code
 * path with plain float32 sums, and that against OpenMPI's allreduce where it is installed.
 *
 *     bench_reduce [--quick]
 *
 * N forked ranks form a full mesh; each iteration ends with a barrier, which both forms pay. The
 * two forms alternate, so that noise of the machine hits both; medians are printed as rows of
 * out/bench.json. Results are checked: every rank compares its means with the expected sum.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "worker/core/exchange.h"
#include "worker/core/quant_isa.h"
#include "worker/net_conn.h"
#include "worker/pages.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS_MAX = 4, ITERATIONS_MAX = 64 };

struct rank {
    uint32_t me, ranks;
    struct layout layout;
    struct exchange x;
    struct exchange_message message;
    int16_t *scale;
    float *gradient; /* plain form: this rank's values */
    float *plain;    /* plain form: sums of the own chunk, then all */
    uint32_t got[RANKS_MAX], sent[RANKS_MAX], mean_got[RANKS_MAX], mean_sent[RANKS_MAX];
    struct conn *conn[RANKS_MAX];
    bool barrier_sent[RANKS_MAX], barrier_got[RANKS_MAX];
    bool is_plain;
    uint64_t iteration;
};

static void die(const char *what)
{
    perror(what);
    _exit(1);
}

static uint64_t elements_of(const struct rank *r, uint32_t first, uint32_t end)
{
    return r->layout.start[end] - r->layout.start[first];
}

static void *need(size_t count, size_t bytes)
{
    void *block = mem_zalloc(count, bytes);
    if (block == NULL) die("out of memory");
    return block;
}

static void rank_init(struct rank *r, uint32_t me, uint32_t ranks, uint64_t elements)
{
    uint64_t blocks = layout_blocks(&elements, 1);
    *r = (struct rank){.me = me, .ranks = ranks};
    uint64_t *start = need(blocks + 1, sizeof *start);
    uint32_t *tensor_block = need(2, sizeof *tensor_block);
    layout_init(&r->layout, &elements, 1, start, tensor_block);
    r->scale = need(blocks, sizeof *r->scale);
    for (uint64_t b = 0; b < blocks; b++) r->scale[b] = 6;
    r->gradient = need(elements, sizeof *r->gradient);
    r->plain = need(elements, sizeof *r->plain);
    struct exchange_setup setup = {.layout = &r->layout,
                                   .scale = r->scale,
                                   .mean = need(elements, sizeof *setup.mean),
                                   .slot_count = ranks,
                                   .isa = quant_isa_best(),
                                   .memory = pages_map(exchange_size(&r->layout))};
    if (setup.memory == NULL) die("out of memory");
    exchange_init(&r->x, &setup);
    for (uint64_t i = 0; i < elements; i++) r->gradient[i] = (float)(i % 97 + me) * 0.01f;
    quant_add(&r->x.own, r->scale, r->gradient, 0, r->layout.block_count);
}

static uint32_t first_of(const struct rank *r, uint32_t rank)
{
    return layout_part(&r->layout, rank, r->ranks);
}

static void begin(struct rank *r, bool is_plain)
{
    struct slot_set slots = {0};
    struct wire_tag tag = {++r->iteration, 1};
    r->is_plain = is_plain;
    memset(r->barrier_sent, 0, sizeof r->barrier_sent);
    memset(r->barrier_got, 0, sizeof r->barrier_got);
    if (!is_plain) {
        slot_set_add(&slots, r->me);
        exchange_begin(&r->x, &tag, r->ranks, r->me);
        exchange_ready(&r->x, &slots);
        return;
    }
    for (uint32_t i = 0; i < r->ranks; i++) {
        r->sent[i] = r->mean_got[i] = first_of(r, i);
        r->got[i] = r->mean_sent[i] = first_of(r, r->me);
    }
    uint64_t at = r->layout.start[first_of(r, r->me)];
    memcpy(r->plain + at, r->gradient + at,
           elements_of(r, first_of(r, r->me), first_of(r, r->me + 1)) * sizeof(float));
}

static uint32_t plain_ready(const struct rank *r)
{
    uint32_t ready = first_of(r, r->me + 1);
    for (uint32_t i = 0; i < r->ranks; i++)
        if (i != r->me && r->got[i] < ready) ready = r->got[i];
    return ready;
}

static bool is_done(const struct rank *r)
{
    if (!r->is_plain) return exchange_is_done(&r->x);
    if (plain_ready(r) < first_of(r, r->me + 1)) return false;
    for (uint32_t i = 0; i < r->ranks; i++)
        if (i != r->me && r->mean_got[i] < first_of(r, i + 1)) return false;
    return true;
}

static size_t fill_floats(struct rank *r, uint32_t *cursor, uint32_t end, const float *from,
                          uint8_t *bytes)
{
    uint32_t first = *cursor;
    if (end - first > EXCHANGE_PIECE_BLOCKS) end = first + EXCHANGE_PIECE_BLOCKS;
    size_t count = elements_of(r, first, end) * sizeof(float);
    memcpy(bytes, from + r->layout.start[first], count);
    *cursor = end;
    return count;
}

static size_t fill(struct rank *r, uint32_t to, uint8_t *bytes, enum wire_kind *ret_kind)
{
    size_t count = 0;
    if (!r->is_plain) {
        *ret_kind = WIRE_DATA;
        if (exchange_next(&r->x, to, &r->message)) count = exchange_copy(&r->message, bytes);
    } else if (r->sent[to] < first_of(r, to + 1)) {
        *ret_kind = WIRE_STATE;
        count = fill_floats(r, &r->sent[to], first_of(r, to + 1), r->gradient, bytes);
    } else if (r->mean_sent[to] < plain_ready(r)) {
        *ret_kind = WIRE_DATA;
        count = fill_floats(r, &r->mean_sent[to], plain_ready(r), r->plain, bytes);
    }
    if (count > 0 || !is_done(r) || r->barrier_sent[to]) return count;
    r->barrier_sent[to] = true;
    *ret_kind = WIRE_FETCH;
    return 8;
}

static void take_floats(struct rank *r, uint32_t *cursor, const uint8_t *bytes, size_t count,
                        bool add)
{
    uint64_t at = r->layout.start[*cursor], elements = count / sizeof(float);
    if (add)
        quant_kernel_plain_join(quant_isa_best(), r->plain + at, r->plain + at,
                                (const float *)(const void *)bytes, elements);
    else
        memcpy(r->plain + at, bytes, count);
    while (*cursor < r->layout.block_count && r->layout.start[*cursor] < at + elements) ++*cursor;
}

static void take(struct rank *r, uint32_t from, const struct conn *conn)
{
    const uint8_t *bytes = conn_payload(conn);
    bool fine = true;
    if (conn->kind == WIRE_FETCH)
        r->barrier_got[from] = true;
    else if (conn->kind == WIRE_HELLO)
        return;
    else if (r->is_plain)
        take_floats(r, conn->kind == WIRE_STATE ? &r->got[from] : &r->mean_got[from], bytes,
                    conn->payload_bytes, conn->kind == WIRE_STATE);
    else
        fine = exchange_take(&r->x, from, bytes, bytes + EXCHANGE_HEADER_BYTES,
                             conn->payload_bytes - EXCHANGE_HEADER_BYTES);
    if (!fine) die("a frame was refused");
}

/* One pass over the connection to `peer`. Returns poll events to wait for; *ret_over: all passed.
 */
static short move(struct rank *r, uint32_t peer, bool *ret_over)
{
    struct conn *conn = r->conn[peer];
    short events = 0;
    for (;;) {
        if (!conn_has_output(conn)) {
            enum wire_kind kind;
            size_t count = fill(r, peer, conn_output(conn), &kind);
            if (count == 0) break;
            conn_finish_output(conn, kind, count);
        }
        enum conn_result result = conn_send(conn);
        if (result == CONN_LOST) die("send");
        if (result == CONN_AGAIN) {
            events |= POLLOUT;
            break;
        }
    }
    for (int i = 0; i < 4 && !r->barrier_got[peer]; i++) { /* what follows it is the next round's */
        enum conn_result result = conn_receive(conn);
        if (result == CONN_LOST) die("receive");
        if (result == CONN_AGAIN) break;
        take(r, peer, conn);
        events |= POLLOUT; /* something new to send, perhaps: come back at once */
    }
    if (!r->barrier_got[peer]) events |= POLLIN;
    *ret_over =
        *ret_over && r->barrier_got[peer] && r->barrier_sent[peer] && !conn_has_output(conn);
    return events;
}

static int64_t reduce_us(struct rank *r, bool is_plain)
{
    int64_t start_us = clock_monotonic_us();
    begin(r, is_plain);
    for (;;) {
        struct pollfd polls[RANKS_MAX];
        nfds_t count = 0;
        bool over = true;
        for (uint32_t i = 0; i < r->ranks; i++) {
            if (i == r->me) continue;
            short events = move(r, i, &over);
            polls[count++] = (struct pollfd){.fd = r->conn[i]->fd, .events = events};
        }
        if (over) return clock_monotonic_us() - start_us;
        if (poll(polls, count, 1000) < 0 && errno != EINTR) die("poll");
    }
}

static void check(const struct rank *r)
{
    for (uint64_t i = 0; i < r->layout.element_count; i += 101) {
        float sum = 0;
        for (uint32_t k = 0; k < r->ranks; k++) sum += (float)(i % 97 + k) * 0.01f;
        float expected = r->is_plain ? sum : sum / (float)r->ranks;
        float got = r->is_plain ? r->plain[i] : r->x.mean[i];
        if (got < expected * 0.9999f || got > expected * 1.0001f) die("wrong sum");
    }
}

/* Sockets between every pair of ranks, made before forking. */
static void make_mesh(int mesh[RANKS_MAX][RANKS_MAX], uint32_t ranks)
{
    struct sockaddr_in local = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof local;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&local, sizeof local) != 0 ||
        listen(listener, 16) != 0 || getsockname(listener, (struct sockaddr *)&local, &bytes) != 0)
        die("listen");
    for (uint32_t a = 0; a < ranks; a++)
        for (uint32_t b = a + 1; b < ranks; b++) {
            mesh[a][b] = socket(AF_INET, SOCK_STREAM, 0);
            if (connect(mesh[a][b], (struct sockaddr *)&local, sizeof local) != 0) die("connect");
            mesh[b][a] = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
            if (mesh[b][a] < 0 || fcntl(mesh[a][b], F_SETFL, O_NONBLOCK) != 0) die("accept");
        }
    (void)close(listener); /* all pairs exist */
}

static void run_rank(uint32_t me, uint32_t ranks, uint64_t elements, uint32_t iterations,
                     int mesh[RANKS_MAX][RANKS_MAX], int64_t *times)
{
    struct rank *r = need(1, sizeof *r);
    struct wire_hello hello = {.version = WIRE_VERSION};
    rank_init(r, me, ranks, elements);
    for (uint32_t i = 0; i < ranks; i++)
        if (i != me) r->conn[i] = conn_open(mesh[me][i], true, i + 1, &hello, 0);
    for (uint32_t i = 0; i < iterations + 1; i++)
        for (uint32_t plain = 0; plain < 2; plain++) {
            int64_t us = reduce_us(r, plain == 1);
            check(r);
            if (me == 0 && i > 0) times[plain * ITERATIONS_MAX + i - 1] = us; /* first: warm-up */
        }
    _exit(0);
}

static int compare(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return left < right ? -1 : left > right;
}

static double median_ms(int64_t *times, uint32_t count)
{
    qsort(times, count, sizeof *times, compare);
    return (double)times[count / 2] / 1000;
}

/* Median of OpenMPI for the same size, or 0 when there is none. */
static double peer_ms(const char *peer, uint32_t ranks, uint64_t bytes, uint32_t iterations)
{
    char command[1024];
    double ms = 0;
    if (access(peer, X_OK) != 0) return 0;
    snprintf(command, sizeof command,
             "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe "
             "--bind-to %s -np %u --mca pml ob1 --mca btl self,tcp --mca btl_tcp_if_include lo "
             "--mca oob_tcp_if_include lo --mca mpi_yield_when_idle 1 '%s' %llu %u 2>/dev/null",
             ranks == 2 ? "core" : "none", ranks, peer, (unsigned long long)bytes, iterations);
    FILE *output = popen(command, "r");
    if (output == NULL || fscanf(output, "%lf", &ms) != 1) ms = 0;
    if (output != NULL) (void)pclose(output); /* what it printed is what counts */
    return ms;
}

static void print_row(const char *name, double value, const char *peer, double peer_value,
                      uint32_t runs)
{
    printf(
        "{\"name\": \"%s\", \"value\": %.3f, \"unit\": \"ms\", \"peer\": \"%s\", \"peer_value\": "
        "%.3f, \"ratio\": %.3f, \"better\": \"lower\", \"runs\": %u}\n",
        name, value, peer, peer_value, value / peer_value, runs);
    fflush(stdout);
}

static void measure(uint32_t ranks, uint32_t mib, uint32_t iterations, const char *peer)
{
    int mesh[RANKS_MAX][RANKS_MAX];
    char name[64];
    uint64_t elements = (uint64_t)mib * 1024 * 1024 / sizeof(float);
    int64_t *times = mmap(NULL, 2 * ITERATIONS_MAX * sizeof *times, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (times == MAP_FAILED) die("mmap");
    make_mesh(mesh, ranks);
    for (uint32_t i = 0; i < ranks; i++) {
        pid_t pid = fork();
        if (pid < 0) die("fork");
        if (pid == 0) run_rank(i, ranks, elements, iterations, mesh, times);
    }
    for (uint32_t a = 0; a < ranks; a++)
        for (uint32_t b = 0; b < ranks; b++)
            if (a != b) (void)close(mesh[a][b]); /* the children's now */
    int status;
    while (wait(&status) > 0)
        if (status != 0) exit(1);
    double exact = median_ms(times, iterations);
    double plain = median_ms(times + ITERATIONS_MAX, iterations);
    snprintf(name, sizeof name, "reduce_exact.tcp.%uMB.r%u.vs_plain", mib, ranks);
    print_row(name, exact, "our plain float32 form", plain, iterations);
    double best = peer_ms(peer, ranks, elements * sizeof(float), iterations);
    snprintf(name, sizeof name, "reduce_plain.tcp.%uMB.r%u.vs_best", mib, ranks);
    if (best > 0)
        print_row(name, plain, "OpenMPI allreduce, TCP", best, iterations);
    else
        fprintf(stderr, "%s: no OpenMPI here; skipped\n", name);
}

int main(int argc, char **argv)
{
    char peer[4096];
    bool quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
    const char *slash = strrchr(argv[0], '/');
    snprintf(peer, sizeof peer, "%.*s/peer_mpi", slash == NULL ? 1 : (int)(slash - argv[0]),
             slash == NULL ? "." : argv[0]);
    for (uint32_t ranks = 2; ranks <= RANKS_MAX; ranks *= 2) {
        measure(ranks, 1, quick ? 8 : 40, peer);
        measure(ranks, 64, quick ? 3 : 7, peer);
    }
    return 0;
}
