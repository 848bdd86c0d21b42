/* What bench_reduce and the peers it is compared with, peer_mpi and peer_gloo, do alike. */
#ifndef SHOAL_BENCH_PEER_REDUCE_H
#define SHOAL_BENCH_PEER_REDUCE_H

/* Iterations before those that count, of each size: pages are touched and TCP finds its windows. */
enum { WARM_UP = 3 };

#endif
