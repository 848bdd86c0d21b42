/* OpenMPI's float32 allreduce, the peer of bench_reduce: prints the median time in ms of the
 * slowest rank. `mpirun ... peer_mpi BYTES ITERATIONS` */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { ITERATIONS_MAX = 1000 };

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return left < right ? -1 : left > right;
}

int main(int argc, char **argv)
{
    int rank, count, iterations;
    double times[ITERATIONS_MAX];
    MPI_Init(&argc, &argv);
    if (argc != 3) MPI_Abort(MPI_COMM_WORLD, 2);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    count = (int)(strtoull(argv[1], NULL, 10) / sizeof(float));
    iterations = atoi(argv[2]);
    if (iterations > ITERATIONS_MAX) iterations = ITERATIONS_MAX;
    float *in = calloc((size_t)count, sizeof *in), *out = calloc((size_t)count, sizeof *out);
    if (in == NULL || out == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
    for (int i = 0; i < iterations + 1; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double start = MPI_Wtime();
        MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        double mine = MPI_Wtime() - start, slowest;
        MPI_Reduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
        if (i > 0) times[i - 1] = slowest; /* the first is warm-up */
    }
    qsort(times, (size_t)iterations, sizeof times[0], compare);
    if (rank == 0) printf("%.6f\n", times[iterations / 2] * 1000);
    MPI_Finalize();
    return 0;
}
