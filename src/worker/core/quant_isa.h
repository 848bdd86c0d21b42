/* Which vectors this machine has. For callers outside worker/core: it asks the processor. */
#ifndef SHOAL_WORKER_CORE_QUANT_ISA_H
#define SHOAL_WORKER_CORE_QUANT_ISA_H

#include "worker/core/quant_kernel.h"

static inline enum quant_isa quant_isa_best(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) return QUANT_ISA_AVX512;
    if (__builtin_cpu_supports("avx2")) return QUANT_ISA_AVX2;
    return QUANT_ISA_SSE2;
#else
    return QUANT_ISA_PORTABLE;
#endif
}

#endif
