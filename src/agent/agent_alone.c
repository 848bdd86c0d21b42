/* The agent as a program of its own, so that its tests need no other part of shoal. Takes the
 * arguments of `shoal agent`, with the word "agent" or without.
 */
#include "agent/agent.h"
#include "codec/codec.h"
#include <string.h>

int main(int argc, char **argv)
{
    codec_init();
    if (argc > 1 && strcmp(argv[1], "agent") == 0) return agent_main(argc - 1, argv + 1);
    return agent_main(argc, argv);
}
