#!/usr/bin/env python3
"""group_test.py LM: the trainer as an elastic job, under a fake agent in this process.

Five workers, some on one thread and some on two, train together; one is killed, one is told to
leave, two join late. The weights must have the same SHA-256 as on one worker that was left alone,
and every step must be reported with each slot computed once. Dropout, a learned tokenizer and an
evaluation split are on: an evaluation, which all workers share, must give the same number too.
"""
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time

STEPS, SLOTS, BOUND_S = 30, 12, 120
EVAL_EVERY = 10
COMMAND = [os.path.abspath(sys.argv[1]), "--data", "text", "--width", "32", "--heads", "2",
           "--dropout", "0.05", "--tokenizer", "bpe", "--vocab", "280",
           "--eval-every", str(EVAL_EVERY)]


def environment(**more):
    kept = {k: v for k, v in os.environ.items() if not k.startswith("SHOAL_")}
    return {**kept, "SHOAL_STEPS": str(STEPS), "SHOAL_SLOTS": str(SLOTS), **more}


def run_alone():
    output = subprocess.run(COMMAND, env=environment(), check=True, capture_output=True, text=True)
    lines = [line for line in output.stdout.splitlines() if line.startswith("weights sha256 ")]
    assert len(lines) == 1, output.stdout
    return lines[0].split()[2], evaluations(output.stdout)


def evaluations(text):
    return {line for line in text.splitlines() if line.startswith("eval after ")}


class Worker:
    def __init__(self, number, threads):
        self.number, self.addr, self.rest = number, None, b""
        self.socket, theirs = socket.socketpair()
        self.output = open(f"output-{number}", "w+", encoding="utf-8")
        self.process = subprocess.Popen(
            COMMAND + ["--threads", str(threads)], pass_fds=[theirs.fileno()],
            stdout=self.output,
            env=environment(SHOAL_AGENT_FD=str(theirs.fileno()), SHOAL_WORKER=str(number),
                            SHOAL_TOKEN="secret", SHOAL_GANG="3", SHOAL_EMULATE_SLOT_US="3000"))
        theirs.close()

    def send(self, message):
        try:
            self.socket.sendall((json.dumps(message) + "\n").encode())
        except (BrokenPipeError, ConnectionResetError):
            pass  # it has just ended; the loop will see

    def lines(self):
        """Lines that have arrived; None when the worker has ended."""
        try:
            got = self.socket.recv(65536)
        except ConnectionResetError:
            got = b""
        if not got:
            return None
        *whole, self.rest = (self.rest + got).split(b"\n")
        return [json.loads(line) for line in whole]


class Agent:
    def __init__(self):
        self.running, self.ended, self.rows, self.digest = {}, {}, {}, None
        self.evaluations = set()
        self.selector = selectors.DefaultSelector()

    def start(self, number, threads=1):
        worker = Worker(number, threads)
        self.running[number] = worker
        self.selector.register(worker.socket, selectors.EVENT_READ, worker)

    def send_peers(self):
        peers = [{"worker": w.number, "addr": w.addr} for w in self.running.values() if w.addr]
        for worker in self.running.values():
            worker.send({"t": "peers", "workers": peers})

    def take(self, worker, line):
        if line["t"] == "hello":
            worker.addr = line["addr"]
            self.send_peers()
        elif line["t"] == "progress":
            self.rows[line["step"]] = line
            self.digest = line.get("weights_sha256", self.digest)

    def end(self, worker):
        self.selector.unregister(worker.socket)
        worker.socket.close()
        self.ended[worker.number] = worker.process.wait()
        worker.output.seek(0)
        self.evaluations |= evaluations(worker.output.read())
        worker.output.close()
        del self.running[worker.number]
        self.send_peers()

    def serve_until(self, step):
        deadline = time.monotonic() + BOUND_S
        while self.running and max(self.rows, default=-1) < step:
            ready = self.selector.select(deadline - time.monotonic())
            assert ready, f"no progress beyond step {max(self.rows, default=-1)}"
            for key, _ in ready:
                lines = key.data.lines()
                if lines is None:
                    self.end(key.data)
                for line in lines or []:
                    self.take(key.data, line)

    def kill_all(self):
        for worker in self.running.values():
            worker.process.kill()
            worker.process.wait()


def churn(agent):
    for number in range(1, 6):
        agent.start(number, threads=1 + number % 2)
    agent.serve_until(4)
    agent.running[3].process.send_signal(signal.SIGKILL)
    agent.serve_until(10)
    agent.start(6, threads=2)
    agent.running[1].send({"t": "leave", "reason": "price", "deadline_ms": 3000})
    agent.serve_until(17)
    agent.start(7)
    agent.running[2].process.send_signal(signal.SIGKILL)
    agent.serve_until(STEPS)  # one more than the last: until all have ended


def check(agent, wanted, evaluated):
    assert len(evaluated) == STEPS // EVAL_EVERY, evaluated
    assert agent.evaluations <= evaluated, (agent.evaluations, evaluated)
    assert agent.evaluations, "nobody said an evaluation"
    assert agent.digest == wanted, f"weights {agent.digest} instead of {wanted}"
    assert agent.ended == {1: 0, 2: -9, 3: -9, 4: 0, 5: 0, 6: 0, 7: 0}, agent.ended
    assert sorted(agent.rows) == list(range(STEPS)), sorted(agent.rows)
    for step, row in agent.rows.items():
        owned = [int(worker["slots"], 16) for worker in row["workers"]]
        assert sum(bin(bits).count("1") for bits in owned) == SLOTS, (step, row)
    assert agent.rows[STEPS - 1]["loss"] < agent.rows[0]["loss"] - 0.5


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with open("text", "w", encoding="ascii") as file:
            file.write("\n".join(str(number) for number in range(3000)))
        agent = Agent()
        try:
            churn(agent)
            check(agent, *run_alone())
        finally:
            agent.kill_all()
            os.chdir("/")
    print(f"{STEPS} steps, 7 workers, 2 killed, 1 left: same weights as on one worker")


main()
