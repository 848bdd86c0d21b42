"""A real server in a temporary folder, for the end-to-end tests: start, call, kill, stop.

Every server listens on a port the system chooses, on loopback. Waiting is always for something that
can be seen (a line, an answer, an exit), with a bound.
"""
import http.client
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import unittest

PROGRAM = os.path.abspath(os.environ.get("SHOAL", "build/shoal"))
WAIT_S = 30

MARKET = """
seed: 3
zones:
  aurora/east-a: {region: east, notice: 0s, boot: {min: 0.05s, max: 0.1s}}
offers:
  - {zone: aurora/east-a, model: A10, devices: 1, kind: on_demand, on_demand: 1.00, stock: 1}
"""
CONFIG = """
pools:
  small: {capabilities: [fp16], hardware: [A10], use_cases: [tests]}
providers:
  - {name: local, driver: local, scenario: market.yaml}
timing: {idle_release: 1s, lease: 15s}
"""


def job(name="job", command="exec sleep 600", devices="{min: 1, max: 1}", more=""):
    return (f"name: {name}\nkind: batch\nneeds: {{devices: {devices}}}\n"
            f"run: {{command: [sh, -c, \"{command}\"], dir: /}}\n{more}")


IMPOSSIBLE = ("name: too-large\nkind: elastic\nneeds: {devices: {min: 64, max: 64}}\n"
              "elastic: {slots: 64, steps: 10}\nrun: {command: [\"true\"], dir: /}\n")


class Server:
    """One data folder with the servers that are started on it."""

    def __init__(self, config=CONFIG):
        self.dir = tempfile.mkdtemp(prefix="shoal-e2e-")
        self.data = os.path.join(self.dir, "data")
        self.config = os.path.join(self.dir, "shoal.yaml")
        self.process = self.connection = None
        self.port = 0  # any; a restart takes the same one, because agents know it
        self.errors = os.path.join(self.dir, "stderr")
        with open(self.config, "w") as file:
            file.write(config)
        with open(os.path.join(self.dir, "market.yaml"), "w") as file:
            file.write(MARKET)

    def command(self, *more):
        return [PROGRAM, "server", "--config", self.config, "--data", self.data,
                "--listen", f"127.0.0.1:{self.port}", *more]

    def start(self, *more):
        """Returns when it has said where it serves."""
        with open(self.errors, "a") as errors:
            self.process = subprocess.Popen(self.command(*more), stdout=subprocess.PIPE,
                                            stderr=errors, text=True)
        self.line = self.process.stdout.readline()
        if not self.line.startswith("shoal server: http://"):
            self.process.wait(WAIT_S)
            raise AssertionError("did not start: " + self.said())
        self.host, port = self.line.split()[2][len("http://"):].rsplit(":", 1)
        self.port = int(port)
        self.token, self.agent_token = self.read("token"), self.read("agent-token")
        self.connection = None

    def processor_s(self):
        """Processor time it has used: what a busy machine adds to the time on the wall is not its own."""
        with open(f"/proc/{self.process.pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def read(self, name):
        with open(os.path.join(self.data, name)) as file:
            return file.read().strip()

    def said(self):
        with open(self.errors) as file:
            return file.read()

    def connect(self):
        return http.client.HTTPConnection(self.host, self.port, timeout=WAIT_S)

    def ask(self, method, path, body=None, token=None, headers=None, connection=None):
        """(status, text, headers) of one call."""
        if connection is None:
            self.connection = self.connection or self.connect()
            connection = self.connection
        all_headers = {"Authorization": "Bearer " + (self.token if token is None else token)}
        all_headers.update(headers or {})
        connection.request(method, path, body, all_headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), answer.headers

    def get(self, path):
        status, text, _ = self.ask("GET", path)
        if status != 200:
            raise AssertionError(f"{path}: {status} {text}")
        return json.loads(text)

    def submit(self, text, **more):
        status, answer, _ = self.ask("POST", "/v1/jobs", text, **more)
        return status, json.loads(answer)

    def submit_many(self, texts, connections=16):
        """Answers of all submissions, made over as many connections at once."""
        answers, lock, texts = [], threading.Lock(), iter(texts)

        def submit():
            connection = self.connect()
            while True:
                with lock:
                    text = next(texts, None)
                if text is None:
                    return connection.close()
                answer = self.submit(text, connection=connection)
                with lock:
                    answers.append(answer)

        threads = [threading.Thread(target=submit) for _ in range(connections)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return answers

    def wait_for(self, what, check, bound_s=WAIT_S):
        until = time.monotonic() + bound_s
        while time.monotonic() < until:
            found = check()
            if found:
                return found
            select_nothing(0.02)
        raise AssertionError(f"waited {bound_s} s for {what}; " + self.said()[-2000:])

    def wait_for_offers(self):
        self.wait_for("offers", lambda: self.get("/v1/offers")["offers"])

    def kill(self):
        self.process.kill()
        self.process.wait(WAIT_S)
        self.process.stdout.close()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(WAIT_S)
        self.process.stdout.close()
        return status

    def remove(self):
        """Lets the emulated machines of a killed server go too: by one more start and stop."""
        if self.process is not None and self.process.poll() is not None and os.path.exists(self.data):
            if self.process.returncode != 0:
                self.start()
        if self.process is not None and self.process.poll() is None:
            self.stop()
        shutil.rmtree(self.dir, ignore_errors=True)


def select_nothing(seconds):
    """Between two looks at something that another process does."""
    import select
    select.select([], [], [], seconds)


class Case(unittest.TestCase):
    config = CONFIG

    def setUp(self):
        self.server = Server(self.config)
        self.addCleanup(self.server.remove)

    def assert_sentence(self, text):
        error = json.loads(text)["error"]
        self.assertGreater(len(error), 10, error)
        self.assertNotIn("\n", error)
        return error


def main():
    unittest.main(verbosity=2, warnings="ignore")
