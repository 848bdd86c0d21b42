#!/usr/bin/env python3
"""limits.py TRAINER: workers whose files may not grow (ulimit -f) lose their checkpoints and their
shared memory, not the job: it ends on other links with the weights of one worker alone."""
import os
import sys
import tempfile

import fake_agent

STEPS, SLOTS = 6, 6
TRAINER = os.path.abspath(sys.argv[1])
LIMITED = ["/bin/sh", "-c", f"ulimit -f 100; exec '{TRAINER}'"]


def main():
    wanted = fake_agent.alone([TRAINER], E2E_MOMENTS=1, SHOAL_STEPS=STEPS, SHOAL_SLOTS=SLOTS)
    with tempfile.TemporaryDirectory() as folder:
        with fake_agent.Agent(LIMITED, STEPS, SHOAL_GANG=2, SHOAL_SLOTS=SLOTS, E2E_MOMENTS=1,
                              SHOAL_CHECKPOINT_DIR=folder, SHOAL_CHECKPOINT_EVERY=2) as agent:
            agent.start(1)
            agent.start(2)
            agent.serve_to_end()
        assert agent.ended == {1: 0, 2: 0}, agent.ended
        assert agent.digest == wanted, f"weights {agent.digest} instead of {wanted}"
        assert agent.saved == [], agent.saved
    print("a limit on files cost the checkpoints alone")


main()
