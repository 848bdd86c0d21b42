// Gloo's float32 ring allreduce over TCP on loopback, the other peer of bench_reduce:
// `peer_gloo RANK RANKS EMPTY-FOLDER BYTES:ITERATIONS...`, one process per rank. Rank 0 prints for
// each size one line, the bytes and then the time of the slowest rank in ms, once per iteration.
#include "peer_reduce.h"
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

namespace {

void barrier(const std::shared_ptr<gloo::Context> &context)
{
    gloo::BarrierOptions options(context);
    gloo::barrier(options);
}

double slowest(const std::shared_ptr<gloo::Context> &context, double mine)
{
    gloo::AllreduceOptions options(context);
    double all = 0;
    options.setInput(&mine, 1);
    options.setOutput(&all, 1);
    options.setReduceFunction(static_cast<void (*)(void *, const void *, const void *, size_t)>(
        &gloo::max<double>));
    gloo::allreduce(options);
    return all;
}

void measure(const std::shared_ptr<gloo::Context> &context, unsigned long long bytes,
             int iterations)
{
    std::vector<float> in(bytes / sizeof(float)), out(in.size());
    for (size_t i = 0; i < in.size(); i++)
        in[i] = static_cast<float>(i % 97) + static_cast<float>(context->rank);
    if (context->rank == 0) std::printf("%llu", bytes);
    for (int i = 0; i < WARM_UP + iterations; i++) {
        gloo::AllreduceOptions options(context);
        options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
        options.setInput(in.data(), in.size());
        options.setOutput(out.data(), out.size());
        options.setReduceFunction(
            static_cast<void (*)(void *, const void *, const void *, size_t)>(&gloo::sum<float>));
        barrier(context);
        auto start = std::chrono::steady_clock::now();
        gloo::allreduce(options);
        std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
        double all = slowest(context, took.count());
        if (context->rank == 0 && i >= WARM_UP) std::printf(" %.6f", all);
    }
    if (context->rank == 0) std::printf("\n");
}

} // namespace

int main(int argc, char **argv)
{
    if (argc < 5) return 2;
    gloo::transport::tcp::attr attr("127.0.0.1");
    auto device = gloo::transport::tcp::CreateDevice(attr);
    auto context =
        std::make_shared<gloo::rendezvous::Context>(std::atoi(argv[1]), std::atoi(argv[2]));
    gloo::rendezvous::FileStore store(argv[3]);
    context->connectFullMesh(store, device);
    for (int i = 4; i < argc; i++) {
        unsigned long long bytes;
        int iterations;
        if (std::sscanf(argv[i], "%llu:%d", &bytes, &iterations) != 2) return 2;
        measure(context, bytes, iterations);
    }
    return 0;
}
