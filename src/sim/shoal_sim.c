/* The simulator as a program of its own, for tests and benchmarks that run before the rest of the
 * binary exists. People use `shoal sim`. */
#include "sim/sim.h"

int main(int argc, char **argv)
{
    return sim_main(argc, argv);
}
