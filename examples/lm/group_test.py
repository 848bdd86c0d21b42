#!/usr/bin/env python3
"""group_test.py LM: the trainer as an elastic job, under a fake agent in this process.

Five workers, some on one thread and some on two, train together; one is killed, one is told to
leave, two join late. The weights must have the same SHA-256 as on one worker that was left alone,
and every step must be reported with each slot computed once. Dropout, a learned tokenizer and an
evaluation split are on: an evaluation, which all workers share, must give the same number too.
"""
import os
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/e2e"))
import fake_agent  # noqa: E402

STEPS, SLOTS, EVAL_EVERY = 30, 12, 10
COMMAND = [os.path.abspath(sys.argv[1]), "--data", "text", "--width", "32", "--heads", "2",
           "--dropout", "0.05", "--tokenizer", "bpe", "--vocab", "280",
           "--eval-every", str(EVAL_EVERY)]
SETTINGS = {"SHOAL_STEPS": STEPS, "SHOAL_SLOTS": SLOTS}


def churn(agent):
    def start(number, threads):
        agent.start(number, COMMAND + ["--threads", str(threads)])

    for number in range(1, 6):
        start(number, 1 + number % 2)
    agent.serve_until(4)
    agent.kill(3)
    agent.serve_until(10)
    start(6, 2)
    agent.leave(1)
    agent.serve_until(17)
    start(7, 1)
    agent.kill(2)
    agent.serve_to_end()


def check_evaluations(said, said_alone):
    said, alone = ({line for line in lines if line.startswith("eval after ")}
                   for lines in (said, said_alone))
    assert len(alone) == STEPS // EVAL_EVERY, alone
    assert said, "nobody said an evaluation"
    assert said <= alone, (said, alone)


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with open("text", "w", encoding="ascii") as file:
            file.write("\n".join(str(number) for number in range(3000)))
        with fake_agent.Agent(COMMAND, STEPS, SHOAL_GANG=3, SHOAL_SLOTS=SLOTS,
                              SHOAL_EMULATE_SLOT_US=3000) as agent:
            churn(agent)
        wanted, said = fake_agent.said_alone(COMMAND, **SETTINGS)
        check_evaluations(agent.said, said)
        assert agent.digest == wanted, f"weights {agent.digest} instead of {wanted}"
        assert agent.ended == {1: 0, 2: -9, 3: -9, 4: 0, 5: 0, 6: 0, 7: 0}, agent.ended
        agent.check_rows(SLOTS)
        assert agent.rows[STEPS - 1]["loss"] < agent.rows[0]["loss"] - 0.5
        os.chdir("/")
    print(f"{STEPS} steps, 7 workers, 2 killed, 1 left: same weights as on one worker")


main()
