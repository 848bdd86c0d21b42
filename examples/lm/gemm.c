#include "ops.h"
#include <cblas.h>
#include <stdlib.h>
#include <unistd.h>

void gemm_pin_kernels(char **argv)
{
#if defined(__x86_64__)
    if (getenv("OPENBLAS_CORETYPE") != NULL && getenv("OPENBLAS_NUM_THREADS") != NULL) return;
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return;
    if (setenv("OPENBLAS_CORETYPE", "Haswell", 0 /* keep */) != 0) return;
    if (setenv("OPENBLAS_NUM_THREADS", "1", 0 /* keep */) != 0) return;
    char path[4096]; /* the real path, so that process lists show the real name */
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length < 0) return;
    path[length] = '\0';
    (void)execv(path, argv); /* on failure: slower or other kernels, same program */
#else
    (void)argv; /* one kernel set per architecture is all that OpenBLAS has elsewhere */
#endif
}

const char *gemm_kernels(void)
{
    return openblas_get_corename();
}

void gemm_set_threads(int count)
{
    openblas_set_num_threads(count);
}

void gemm(struct gemm_shape shape, float scale, struct gemm_operand a, struct gemm_operand b,
          float add, float *ret_c, size_t c_stride)
{
    cblas_sgemm(CblasRowMajor, a.transposed ? CblasTrans : CblasNoTrans,
                b.transposed ? CblasTrans : CblasNoTrans, (blasint)shape.m, (blasint)shape.n,
                (blasint)shape.k, scale, a.data, (blasint)a.stride, b.data, (blasint)b.stride, add,
                ret_c, (blasint)c_stride);
}
