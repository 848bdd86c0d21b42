/* The agent as a program of its own, so that its tests need no other part of shoal. */
#include "agent/agent.h"
#include "codec/codec.h"

int main(int argc, char **argv)
{
    codec_init();
    return agent_main(argc, argv);
}
