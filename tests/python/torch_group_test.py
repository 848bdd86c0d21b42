#!/usr/bin/env python3
"""The PyTorch examples as elastic jobs, under a fake agent: workers are killed, leave and join.

    torch_group_test.py lm | sharded | finetune

The weights at the end must have the same SHA-256 as on one worker that was left alone, and every
step must be reported with each slot computed once. Then all workers are killed at once, and new ones
go on from the checkpoint: same weights again.
"""
import pathlib
import sys
import tempfile
import time

root = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(root / "tests/e2e"))
import fake_agent  # noqa: E402

STEPS, SLOTS = 16, 6
PROGRAMS = {
    "lm": ["torch_lm.py", "--data", "text", "--width", "32", "--context", "32", "--batch", "2"],
    "sharded": ["torch_lm.py", "--data", "text", "--width", "32", "--context", "32", "--batch", "2",
                "--sharded"],
    "finetune": ["hf_finetune.py", "--batch", "2"],
}


def settings(**more):
    return {"SHOAL_SLOTS": SLOTS, "PYTHONPATH": root / "python", "OMP_NUM_THREADS": 1, **more}


def churn(command):
    """Four workers; one is killed, one leaves, one joins late. Digest of the final weights."""
    # Slots last 60 ms at least, so that a kill finds the group in the middle of a step, and a joiner
    # on a busy machine finds steps to compute.
    with fake_agent.Agent(command, STEPS, SHOAL_EMULATE_SLOT_US=60000, SHOAL_GANG=3,
                          **settings()) as agent:
        agent.start_all((1, 2, 3, 4))
        agent.admit(1, 2, 3)
        agent.serve_until(2)
        agent.kill(1)
        agent.admit(4)
        agent.serve_while(lambda: not agent.computed(4))
        agent.leave(2)
        agent.serve_until(max(agent.rows) + 2)
        agent.kill(3)
        agent.serve_to_end()
        assert agent.ended == {1: -9, 2: 0, 3: -9, 4: 0}, agent.ended
        assert agent.computed(1) and agent.computed(2) and agent.computed(3)
        agent.check_rows(SLOTS)
        assert agent.rows[STEPS - 1]["loss"] < agent.rows[0]["loss"], "it learned nothing"
        return agent.digest


def resume(command, folder):
    """Both workers are killed at once after a checkpoint; others load it and finish."""
    more = settings(SHOAL_CHECKPOINT_DIR=folder, SHOAL_CHECKPOINT_EVERY=2,
                    SHOAL_EMULATE_SLOT_US=20000)
    with fake_agent.Agent(command, STEPS, **more) as agent:
        agent.start(1, SHOAL_GANG=2)
        agent.start(2, SHOAL_GANG=2)
        agent.serve_while(lambda: not agent.saved)
        agent.kill(1)
        agent.kill(2)
        reached = max(agent.rows)
        agent.serve_while(lambda: True)
        assert reached < STEPS - 1, "they finished before they were killed"
        agent.start(3)
        agent.serve_to_end()
        assert agent.ended == {1: -9, 2: -9, 3: 0}, agent.ended
        return agent.digest


def main():
    program, *arguments = PROGRAMS[sys.argv[1]]
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        text = pathlib.Path(folder, "text")
        text.write_text("\n".join(str(number) for number in range(3000)))
        command = [sys.executable, str(root / "examples" / program),
                   *(str(text) if word == "text" else word for word in arguments)]
        wanted = fake_agent.alone(command, SHOAL_STEPS=STEPS, **settings())
        digests = {"churn": churn(command)}
        if sys.argv[1] == "lm":
            digests["resume"] = resume(command, folder + "/checkpoints")
    for name, digest in digests.items():
        assert digest == wanted, f"{name}: weights {digest} instead of {wanted}"
    print(f"{program}: {STEPS} steps; kill -9, leave, join ({', '.join(digests)}): same weights as "
          f"alone, {wanted[:16]} ({time.monotonic() - began:.0f} s)")


main()
