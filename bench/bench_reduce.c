/* All-reduce of float32 between processes of this machine, over the product's links and driver:
 * plain sums against the better of OpenMPI and Gloo, the exact exchange against plain sums.
 *
 *     bench_reduce [--quick] [tcp|shm] [r2|r4] [4KB|64KB|1MB|16MB|64MB|256MB ...]
 *
 * Short rounds of ours, OpenMPI (same transport) and Gloo (which has only TCP) alternate, so that
 * noise of the machine hits all; within a round our two forms alternate. An iteration begins with a
 * barrier of its own and lasts until the slowest rank has its result. What is compared is the
 * median of the rounds' ratios, each of the medians of one round: times are medians of the rounds
 * too, and their quotient may be another. Rows go to out/bench.json; results are checked each time.
 * 2 ranks are bound to a core each, as OpenMPI binds its own; more are not.
 */
#include "median.h"
#include "peer_reduce.h"
#include "reduce_rank.h"
#include "worker/link/link_shm.h"
#include "worker/link/link_tcp.h"
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RANKS_MAX = 4, SAMPLES_MAX = 256, SIZES = 6, ROUNDS = 9, ROUNDS_QUICK = 5 };

static const struct size {
    uint64_t bytes;
    uint32_t iterations; /* of a round */
    const char *name;
} sizes[SIZES] = {{4 << 10, 100, "4KB"}, {64 << 10, 40, "64KB"}, {1 << 20, 20, "1MB"},
                  {16 << 20, 6, "16MB"}, {64 << 20, 4, "64MB"},  {256 << 20, 2, "256MB"}};

enum who { OURS_PLAIN, OURS_EXACT, OPENMPI, GLOO, WHO };
static const char *const NAMES[WHO] = {"ours, plain float32", "ours, exact", "OpenMPI", "Gloo"};

/* Of one round, and the medians of those before. */
struct samples {
    uint32_t rounds;
    uint32_t count[WHO][SIZES];
    double ms[WHO][SIZES][SAMPLES_MAX];
    double median_ms[WHO][SIZES][ROUNDS]; /* 0: none */
};

/* Shared by the ranks of one round. */
struct meeting {
    _Atomic uint32_t arrived;
    int64_t took_ns[RANKS_MAX];
    uint32_t count[REDUCE_FORMS][SIZES];
    double ms[REDUCE_FORMS][SIZES][SAMPLES_MAX];
};

struct round {
    bool is_shm;
    uint32_t ranks;
    bool has_size[SIZES];
    struct meeting *meeting;
    const char *folder; /* of this program, the peers lie beside it */
};

static void die(const char *what)
{
    perror(what);
    _exit(1);
}

static int64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail for this clock */
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static uint32_t iterations(const struct round *round, uint32_t size)
{
    return round->has_size[size] ? sizes[size].iterations : 0;
}

/* All ranks, `phase` counts the meetings so far. */
static void meet(const struct round *round, uint32_t *phase)
{
    uint32_t wanted = ++*phase * round->ranks;
    atomic_fetch_add(&round->meeting->arrived, 1);
    for (uint32_t i = 0; atomic_load(&round->meeting->arrived) < wanted; i++)
        if (round->ranks > 2 || i > 10000) (void)sched_yield(); /* always succeeds */
}

static void time_one(const struct round *round, struct reduce_rank *rank, uint32_t me,
                     uint32_t *phase)
{
    reduce_begin(rank);
    meet(round, phase);
    int64_t start_ns = now_ns();
    reduce_run(rank);
    round->meeting->took_ns[me] = now_ns() - start_ns;
    meet(round, phase);
    reduce_check(rank);
}

static void note(const struct round *round, enum reduce_form form, uint32_t size)
{
    struct meeting *meeting = round->meeting;
    int64_t slowest_ns = 0;
    for (uint32_t i = 0; i < round->ranks; i++)
        if (meeting->took_ns[i] > slowest_ns) slowest_ns = meeting->took_ns[i];
    meeting->ms[form][size][meeting->count[form][size]++] = (double)slowest_ns / 1e6;
}

static void run_rank(const struct round *round, struct reduce_rank *rank, uint32_t me)
{
    uint32_t phase = 0;
    for (uint32_t size = 0; size < SIZES; size++)
        for (uint32_t half = 0; half < 2 * REDUCE_FORMS; half++) { /* A B A B */
            enum reduce_form form = half % 2 == 0 ? REDUCE_PLAIN : REDUCE_EXACT;
            uint32_t count = (iterations(round, size) + half / 2) / 2;
            if (count == 0) continue;
            uint32_t warm_up = half < REDUCE_FORMS ? WARM_UP : 1; /* its sums are mapped anew */
            reduce_set(rank, form, sizes[size].bytes);
            for (uint32_t i = 0; i < warm_up + count; i++) {
                time_one(round, rank, me, &phase);
                if (me == 0 && i >= warm_up) note(round, form, size);
                meet(round, &phase);
            }
        }
    _exit(0);
}

struct ends {
    int fd[RANKS_MAX][RANKS_MAX], memory[RANKS_MAX][RANKS_MAX];
};

static void connect_tcp(struct ends *ends, uint32_t a, uint32_t b)
{
    struct sockaddr_in local = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof local;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&local, sizeof local) != 0 ||
        listen(listener, 1) != 0 || getsockname(listener, (struct sockaddr *)&local, &bytes) != 0)
        die("listen");
    ends->fd[a][b] = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(ends->fd[a][b], (struct sockaddr *)&local, sizeof local) != 0) die("connect");
    ends->fd[b][a] = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
    if (ends->fd[b][a] < 0 || fcntl(ends->fd[a][b], F_SETFL, O_NONBLOCK) != 0) die("accept");
    (void)close(listener); /* its one connection was taken */
}

static void connect_shm(struct ends *ends, uint32_t a, uint32_t b)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) != 0) die("socketpair");
    ends->fd[a][b] = pair[0];
    ends->fd[b][a] = pair[1];
    ends->memory[a][b] = ends->memory[b][a] = link_shm_make();
    if (ends->memory[a][b] < 0) die("memfd");
}

static void start_rank(const struct round *round, struct ends *ends, uint32_t me)
{
    uint64_t bytes_max = 0;
    for (uint32_t i = 0; i < SIZES; i++)
        if (iterations(round, i) > 0) bytes_max = sizes[i].bytes;
    struct reduce_rank *rank = reduce_open(me, round->ranks, bytes_max); /* sees all cores */
    if (round->ranks == 2) {
        cpu_set_t cpu;
        CPU_ZERO(&cpu);
        CPU_SET(me, &cpu);
        (void)sched_setaffinity(0, sizeof cpu, &cpu); /* only noisier without */
    }
    for (uint32_t i = 0; i < round->ranks; i++) {
        if (i == me) continue;
        reduce_link(rank, i,
                    round->is_shm ? link_shm_open(ends->fd[me][i], ends->memory[me][i], me < i)
                                  : link_tcp_open(&ends->fd[me][i], 1));
        for (uint32_t k = 0; k < round->ranks; k++)
            if (k != i) (void)close(ends->fd[i][k]); /* theirs */
    }
    run_rank(round, rank, me);
}

static void measure_ours(const struct round *round, struct samples *samples)
{
    static struct ends ends;
    struct meeting *meeting = round->meeting;
    memset(meeting, 0, sizeof *meeting);
    memset(&ends, 0xff, sizeof ends); /* -1: none */
    for (uint32_t a = 0; a < round->ranks; a++)
        for (uint32_t b = a + 1; b < round->ranks; b++)
            round->is_shm ? connect_shm(&ends, a, b) : connect_tcp(&ends, a, b);
    for (uint32_t i = 0; i < round->ranks; i++) {
        pid_t pid = fork();
        if (pid < 0) die("fork");
        if (pid == 0) start_rank(round, &ends, i);
    }
    for (uint32_t a = 0; a < round->ranks; a++)
        for (uint32_t b = 0; b < round->ranks; b++) {
            if (a == b) continue;
            (void)close(ends.fd[a][b]); /* the children's now */
            if (ends.memory[a][b] >= 0 && a < b) (void)close(ends.memory[a][b]);
        }
    int status;
    while (wait(&status) > 0)
        if (status != 0) exit(1);
    for (uint32_t form = 0; form < REDUCE_FORMS; form++)
        for (uint32_t size = 0; size < SIZES; size++)
            for (uint32_t i = 0; i < meeting->count[form][size]; i++)
                samples->ms[form][size][samples->count[form][size]++] = meeting->ms[form][size][i];
}

/* Lines "BYTES ms ms ms" of a peer. False: it printed none. */
static bool read_peer(const char *command, enum who who, struct samples *samples)
{
    static char line[64 * 1024];
    FILE *output = popen(command, "r");
    bool any = false;
    while (output != NULL && fgets(line, sizeof line, output) != NULL) {
        char *at;
        unsigned long long bytes = strtoull(line, &at, 10);
        for (uint32_t size = 0; size < SIZES; size++) {
            if (sizes[size].bytes != bytes) continue;
            for (char *end; samples->count[who][size] < SAMPLES_MAX; at = end) {
                double ms = strtod(at, &end);
                if (end == at) break;
                samples->ms[who][size][samples->count[who][size]++] = ms;
                any = true;
            }
        }
    }
    if (output != NULL) (void)pclose(output); /* what it printed is what counts */
    return any;
}

static void list_sizes(const struct round *round, char *text, size_t bytes)
{
    size_t count = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < SIZES; i++)
        if (iterations(round, i) > 0)
            count += (size_t)snprintf(text + count, bytes - count, " %llu:%u",
                                      (unsigned long long)sizes[i].bytes, iterations(round, i));
}

static bool measure_mpi(const struct round *round, struct samples *samples)
{
    char command[8192], list[256], peer[4096];
    snprintf(peer, sizeof peer, "%s/peer_mpi", round->folder);
    if (access(peer, X_OK) != 0) return false;
    list_sizes(round, list, sizeof list);
    snprintf(command, sizeof command,
             "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe "
             "--bind-to %s -np %u --mca pml ob1 --mca btl self,%s --mca btl_tcp_if_include lo "
             "--mca oob_tcp_if_include lo --mca mpi_yield_when_idle 1 '%s'%s 2>/dev/null",
             round->ranks == 2 ? "core" : "none", round->ranks, round->is_shm ? "vader" : "tcp",
             peer, list);
    return read_peer(command, OPENMPI, samples);
}

static bool measure_gloo(const struct round *round, struct samples *samples)
{
    char command[16384], list[256], peer[4096];
    snprintf(peer, sizeof peer, "%s/peer_gloo", round->folder);
    if (access(peer, X_OK) != 0) return false;
    list_sizes(round, list, sizeof list);
    snprintf(command, sizeof command,
             "d=$(mktemp -d) && for r in $(seq 1 %u); do '%s' $r %u $d%s & done; '%s' 0 %u $d%s; "
             "wait; rm -r $d",
             round->ranks - 1, peer, round->ranks, list, peer, round->ranks, list);
    return read_peer(command, GLOO, samples);
}

/* The round is over: only its medians stay. */
static void close_round(struct samples *samples)
{
    for (uint32_t who = 0; who < WHO; who++)
        for (uint32_t size = 0; size < SIZES; size++) {
            uint32_t count = samples->count[who][size];
            samples->median_ms[who][size][samples->rounds] =
                count == 0 ? 0 : median_of_doubles(samples->ms[who][size], count);
            samples->count[who][size] = 0;
        }
    samples->rounds++;
}

/* Of all rounds. */
static double median(const struct samples *samples, enum who who, uint32_t size)
{
    double round_ms[ROUNDS];
    memcpy(round_ms, samples->median_ms[who][size], sizeof round_ms);
    return median_of_doubles(round_ms, samples->rounds);
}

static void print_row(const char *name, const struct samples *samples, uint32_t size, enum who who,
                      enum who peer)
{
    double ratio[ROUNDS];
    for (uint32_t i = 0; i < samples->rounds; i++)
        ratio[i] = samples->median_ms[who][size][i] / samples->median_ms[peer][size][i];
    printf("{\"name\": \"%s\", \"value\": %.4f, \"unit\": \"ms\", \"peer\": \"%s\", "
           "\"peer_value\": %.4f, \"ratio\": %.3f, \"better\": \"lower\", \"runs\": %u}\n",
           name, median(samples, who, size), NAMES[peer], median(samples, peer, size),
           median_of_doubles(ratio, samples->rounds), samples->rounds);
    fflush(stdout);
}

static void print_size(const struct round *round, const struct samples *samples, uint32_t size)
{
    char name[96];
    const char *via = round->is_shm ? "shm" : "tcp";
    double mpi_ms = median(samples, OPENMPI, size), gloo_ms = median(samples, GLOO, size);
    enum who best = gloo_ms > 0 && (mpi_ms <= 0 || gloo_ms < mpi_ms) ? GLOO : OPENMPI;
    bool has_peer = mpi_ms > 0 || gloo_ms > 0;
    if (has_peer) {
        snprintf(name, sizeof name, "reduce_%s.%s.%s.r%u.vs_best", size == 0 ? "latency" : "plain",
                 via, sizes[size].name, round->ranks);
        print_row(name, samples, size, OURS_PLAIN, best);
    }
    snprintf(name, sizeof name, "reduce_exact.%s.%s.r%u.vs_plain", via, sizes[size].name,
             round->ranks);
    print_row(name, samples, size, OURS_EXACT, OURS_PLAIN);
    if (size > 0 || !has_peer) return;
    snprintf(name, sizeof name, "reduce_latency_exact.%s.%s.r%u.vs_best", via, sizes[size].name,
             round->ranks);
    print_row(name, samples, size, OURS_EXACT, best);
}

static void measure(struct round *round, uint32_t rounds)
{
    static struct samples samples;
    bool mpi = false, gloo = false;
    memset(&samples, 0, sizeof samples);
    for (uint32_t i = 0; i < rounds; i++) {
        measure_ours(round, &samples);
        mpi = measure_mpi(round, &samples);
        gloo = measure_gloo(round, &samples);
        close_round(&samples);
    }
    if (!mpi) fprintf(stderr, "no OpenMPI here: not compared with it\n");
    if (!gloo) fprintf(stderr, "no Gloo here: not compared with it\n");
    for (uint32_t size = 0; size < SIZES; size++)
        if (iterations(round, size) > 0) print_size(round, &samples, size);
}

/* Sizes asked for; none named: all are. */
static void choose_sizes(struct round *round, int argc, char **argv)
{
    bool any = false;
    for (uint32_t size = 0; size < SIZES; size++)
        for (int i = 1; i < argc; i++)
            if (strcmp(argv[i], sizes[size].name) == 0) any = round->has_size[size] = true;
    for (uint32_t size = 0; size < SIZES && !any; size++) round->has_size[size] = true;
}

/* Is this one asked for? Nothing named: all are. */
static bool wanted(int argc, char **argv, const char *name, const char *other)
{
    bool here = false, there = false;
    for (int i = 1; i < argc; i++) {
        here = here || strcmp(argv[i], name) == 0;
        there = there || strcmp(argv[i], other) == 0;
    }
    return here || !there;
}

int main(int argc, char **argv)
{
    char folder[3072];
    const char *slash = strrchr(argv[0], '/');
    snprintf(folder, sizeof folder, "%.*s", slash == NULL ? 1 : (int)(slash - argv[0]),
             slash == NULL ? "." : argv[0]);
    bool quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
    struct round round = {.folder = folder};
    choose_sizes(&round, argc, argv);
    round.meeting = mmap(NULL, sizeof *round.meeting, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (round.meeting == MAP_FAILED) die("mmap");
    for (round.ranks = 2; round.ranks <= RANKS_MAX; round.ranks *= 2)
        for (int is_shm = 0; is_shm < 2; is_shm++) {
            round.is_shm = is_shm == 1;
            if (wanted(argc, argv, is_shm == 1 ? "shm" : "tcp", is_shm == 1 ? "tcp" : "shm") &&
                wanted(argc, argv, round.ranks == 2 ? "r2" : "r4", round.ranks == 2 ? "r4" : "r2"))
                measure(&round, quick ? ROUNDS_QUICK : ROUNDS);
        }
    return 0;
}
