/* OpenMPI's float32 allreduce, the peer of bench_reduce: `mpirun ... peer_mpi BYTES:ITERATIONS...`
 * prints for each size one line, the bytes and then the time of the slowest rank in ms, once per
 * iteration. */
#include "peer_reduce.h"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static void measure(unsigned long long bytes, int iterations, int rank)
{
    int count = (int)(bytes / sizeof(float));
    float *in = calloc((size_t)count, sizeof *in), *out = calloc((size_t)count, sizeof *out);
    if (in == NULL || out == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
    for (int i = 0; i < count; i++) in[i] = (float)(i % 97 + rank);
    if (rank == 0) printf("%llu", bytes);
    for (int i = 0; i < WARM_UP + iterations; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double start = MPI_Wtime();
        MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        double mine = MPI_Wtime() - start, slowest;
        MPI_Reduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
        if (rank == 0 && i >= WARM_UP) printf(" %.6f", slowest * 1000);
    }
    if (rank == 0) printf("\n");
    free(in);
    free(out);
}

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 1; i < argc; i++) {
        unsigned long long bytes;
        int iterations;
        if (sscanf(argv[i], "%llu:%d", &bytes, &iterations) != 2) MPI_Abort(MPI_COMM_WORLD, 2);
        measure(bytes, iterations, rank);
    }
    MPI_Finalize();
    return 0;
}
