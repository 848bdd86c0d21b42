"""An agent in this process for worker programs under test: it starts them with a socket pair, tells
them their peers, passes on leaves, and keeps what they report. See docs/protocol.md.
"""
import json
import os
import selectors
import socket
import subprocess
import tempfile
import time


def environment(**more):
    """That of the user without words of shoal, plus `more`."""
    kept = {k: v for k, v in os.environ.items()
            if not k.startswith("SHOAL_") or k == "SHOAL_LIBRARY"}
    return {**kept, **{k: str(v) for k, v in more.items()}}


def said_alone(command, **more):
    """Runs the program without an agent: the digest of its final weights, and the lines it prints."""
    lines = subprocess.run(command, env=environment(**more), check=True, stdout=subprocess.PIPE,
                           text=True).stdout.splitlines()
    digests = [line for line in lines if line.startswith("weights sha256 ")]
    assert len(digests) == 1, lines
    return digests[0].split()[2], lines


def alone(command, **more):
    return said_alone(command, **more)[0]


class Worker:
    def __init__(self, number, command, more):
        self.number, self.addr, self.rest = number, None, b""
        self.socket, theirs = socket.socketpair()
        self.output = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            command, pass_fds=[theirs.fileno()], stdout=self.output,
            env=environment(SHOAL_AGENT_FD=theirs.fileno(), SHOAL_WORKER=number,
                            SHOAL_TOKEN="secret", **more))
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
    """rows: progress by step. saved: steps with a durable checkpoint. ended: exit status by worker
    (negative: the signal). said: lines printed by workers that have ended. digest: of the weights
    after the last step."""

    def __init__(self, command, steps, bound_s=120, **more):
        self.command, self.steps, self.bound_s = command, steps, bound_s
        self.more = {"SHOAL_STEPS": steps, "SHOAL_GANG": 1, **more}
        self.running, self.ended, self.rows, self.saved, self.digest = {}, {}, {}, [], None
        self.said, self.held = [], set()
        self.selector = selectors.DefaultSelector()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for worker in self.running.values():
            worker.process.kill()
            worker.process.wait()

    def start(self, number, command=None, held=False, **more):
        """held: it starts, but hears of nobody until admit()."""
        if held:
            self.held.add(number)
        worker = Worker(number, command or self.command, {**self.more, **more})
        self.running[number] = worker
        self.selector.register(worker.socket, selectors.EVENT_READ, worker)

    def start_all(self, numbers):
        """Starts them, held, and waits until all listen."""
        for number in numbers:
            self.start(number, held=True)
        self.serve_while(lambda: any(w.addr is None for w in self.running.values()))
        assert len(self.running) >= len(numbers), f"ended at once: {self.ended}"

    def admit(self, *numbers):
        self.held -= set(numbers)
        self._send_peers()

    def kill(self, number):
        self.running[number].process.kill()

    def leave(self, number):
        self.running[number].send({"t": "leave", "reason": "price", "deadline_ms": 3000})

    def serve_until(self, step):
        """Until that step is committed, or all have ended."""
        self.serve_while(lambda: max(self.rows, default=-1) < step)

    def serve_while(self, condition):
        """As long as it holds and some worker runs."""
        deadline = time.monotonic() + self.bound_s
        while self.running and condition():
            ready = self.selector.select(max(0, deadline - time.monotonic()))
            assert ready, f"no progress beyond step {max(self.rows, default=-1)}"
            for key, _ in ready:
                lines = key.data.lines()
                if lines is None:
                    self._end(key.data)
                for line in lines or []:
                    self._take(key.data, line)

    def serve_to_end(self):
        self.serve_until(self.steps)

    def computed(self, number):
        """Has this worker computed slots of a committed step?"""
        return any(worker["worker"] == number and int(worker["slots"], 16) > 0
                   for row in self.rows.values() for worker in row["workers"])

    def check_rows(self, slots):
        """Every step was reported, with each slot computed once."""
        assert sorted(self.rows) == list(range(self.steps)), sorted(self.rows)
        for step, row in self.rows.items():
            owned = [int(worker["slots"], 16) for worker in row["workers"]]
            assert sum(bin(bits).count("1") for bits in owned) == slots, (step, row)

    def _send_peers(self):
        told = [worker for number, worker in self.running.items() if number not in self.held]
        peers = [{"worker": w.number, "addr": w.addr} for w in told if w.addr]
        for worker in told:
            worker.send({"t": "peers", "workers": peers})

    def _take(self, worker, line):
        if line["t"] == "hello":
            worker.addr = line["addr"]
            self._send_peers()
        elif line["t"] == "progress":
            self.rows[line["step"]] = line
            self.digest = line.get("weights_sha256", self.digest)
        elif line["t"] == "ckpt":
            self.saved.append(line["step"])

    def _end(self, worker):
        self.selector.unregister(worker.socket)
        worker.socket.close()
        self.ended[worker.number] = worker.process.wait()
        worker.output.seek(0)
        self.said += worker.output.read().splitlines()
        worker.output.close()
        del self.running[worker.number]
        self._send_peers()
