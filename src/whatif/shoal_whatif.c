/* The verb `shoal sim SCENARIO.yaml` as a program of its own, for the tests. */
#include "whatif/whatif.h"

int main(int argc, char **argv)
{
    return whatif_main(argc, argv);
}
