"""A job of eight workers that really stalls, in five ways, one after another: a stopped process, a
program that sleeps, one that waits for data, one that computes on and on, and a link that crawls.
Each time `shoal why` must name the culprit, and nobody else, within ten seconds. And one that stalls
for good loses its node to another, and nobody else does; nor does anybody else when it is one that came
late, and is slow.

    stalls.py TRAINER        the trainer is src/worker/e2e_trainer.c
"""
import json
import os
import signal
import subprocess
import sys
import time
import unittest

import served

TRAINER = os.path.abspath(sys.argv.pop(1))
WORKERS, NAMED_S = 8, 10
MARKET = """
seed: 3
emulate: {slot_ms_at_1_ncu: 20}
zones:
  aurora/east-a: {region: east, notice: 0s, boot: {min: 0.05s, max: 0.1s}}
offers:
  - {zone: aurora/east-a, model: H100, devices: 1, kind: on_demand, on_demand: 1.00, stock: 10}
"""
CONFIG = """
pools:
  big: {capabilities: [fp16], hardware: [H100], use_cases: [tests]}
providers:
  - {name: local, driver: local, scenario: market.yaml}
timing: {idle_release: 5s, drain: 2s, %s}
"""


class Case(unittest.TestCase):
    patience = "replace_stalled: never"

    def setUp(self):
        self.server = served.Server(CONFIG % self.patience)
        self.addCleanup(self.server.remove)
        with open(os.path.join(self.server.dir, "market.yaml"), "w") as file:
            file.write(MARKET)
        self.folder = os.path.join(self.server.dir, "stalls")
        self.links = os.path.join(self.folder, "links")
        os.mkdir(self.folder)
        self.server.start()
        self.server.wait_for_offers()
        status, _ = self.server.submit(
            f"name: big\nkind: elastic\nneeds: {{devices: {{min: {WORKERS}, max: {WORKERS}}}}}\n"
            f"elastic: {{slots: 32, steps: 1000000}}\n"
            f"run: {{command: ['{TRAINER}'], dir: /, env: {{E2E_ELEMENTS: '50000', "
            f"E2E_STALLS: '{self.folder}', SHOAL_EMULATE_LINKS: '{self.links}'}}}}\n")
        self.assertEqual(status, 201)
        self.wait_for_steps(15)

    def step(self):
        return self.server.get("/v1/jobs/1")["step"]

    def wait_for_steps(self, more):
        goal = self.step() + more
        self.server.wait_for(f"{more} steps", lambda: self.step() >= goal)

    def workers(self):
        """Ids of the workers, lowest first."""
        nodes = self.server.get("/v1/nodes")["nodes"]
        return sorted(lease["worker"] for node in nodes for lease in node["leases"])

    def why(self, *more):
        return subprocess.run(
            [served.PROGRAM, "why", "1", "--data", self.server.data, *more],
            stdout=subprocess.PIPE, text=True, check=True, timeout=served.WAIT_S).stdout

    def stall(self):
        return json.loads(self.why("--json"))["stall"]

    def named(self, kind, check=lambda culprit: True):
        """Waits for the verdict; returns its culprits. Only one, of that kind."""
        began = time.monotonic()
        stall = None
        while time.monotonic() - began < NAMED_S:
            stall = self.stall()
            culprits = stall["culprits"] if stall else []
            if any(culprit["kind"] == kind and check(culprit) for culprit in culprits):
                print(f"{kind}: named after {time.monotonic() - began:.1f} s: {stall['text']}\n"
                      f"  {culprits[0]['text']}")
                self.assertEqual(len(culprits), 1, culprits)
                return stall
            time.sleep(0.1)
        self.fail(f"{kind} is not named within {NAMED_S} s, but: {stall}")

    def trouble(self, worker, what):
        path = os.path.join(self.folder, f"{worker}.{what}")
        open(path, "w").close()
        return path

    def over(self):
        self.server.wait_for("the end of the stall", lambda: self.stall() is None)
        self.wait_for_steps(10)

    def decisions(self, reason):
        rows = self.server.get("/v1/jobs/1/why")["decisions"]
        return [row for row in rows if row["reason"] == reason]

    def replaced(self, before, culprit, reason):
        """Waits until another worker is there in its place, and steps go on."""
        drained = self.server.wait_for("the drain", lambda: self.decisions(reason))
        self.assertIn("its node is replaced, 1 so far", drained[0]["text"])
        self.server.wait_for("the other node", lambda: len(self.workers()) == WORKERS and
                             culprit not in self.workers())
        self.assertEqual(set(before) - {culprit}, set(before) & set(self.workers()))
        self.wait_for_steps(10)
        self.assertEqual(len(self.decisions(reason)), 1)
        _, metrics, _ = self.server.ask("GET", "/metrics")
        self.assertIn("\nshoal_nodes_replaced_total 1\n", metrics)

    def pid_of(self, worker):
        mine = {f"SHOAL_WORKER={worker}".encode(), f"E2E_STALLS={self.folder}".encode()}
        for name in os.listdir("/proc"):
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    if mine <= set(file.read().split(b"\0")):
                        return int(name)
            except (OSError, ValueError):
                continue
        self.fail(f"no process of worker {worker}")


class Named(Case):
    def test_culprits_are_named(self):
        first, *_, victim, last = self.workers()
        with self.subTest("waits for data"):
            path = self.trouble(victim, "data")
            stall = self.named("data", lambda culprit: culprit["worker"] == victim)
            self.assertGreaterEqual(stall["victims"], WORKERS - 1)
            self.assertIn("waits for data", self.why())
            os.remove(path)
            self.over()
        with self.subTest("sleeps, and leads the group"):
            path = self.trouble(first, "sleep")
            stall = self.named("host", lambda culprit: culprit["worker"] == first and
                               culprit["stack"])
            self.assertIn("nanosleep", stall["culprits"][0]["text"])
            self.assertIn("sleep_in_slot", "\n".join(stall["culprits"][0]["stack"]))
            self.server.wait_for("going on without it", lambda: "goes on without" in self.why())
            self.wait_for_steps(10)
            os.remove(path)
            self.over()  # and it is back
        with self.subTest("computes on and on"):
            path = self.trouble(victim, "loop")
            self.named("compute", lambda culprit: culprit["worker"] == victim)
            self.assertIn("% of a processor", self.why())
            self.server.wait_for("its stack", lambda: "compute_on_and_on" in self.why())
            os.remove(path)
            self.over()
        with self.subTest("a slow link"):
            with open(self.links, "w") as file:
                file.write(f"{victim} {last} 2000\n")
            self.named("link", lambda culprit: {culprit["worker"], culprit["peer"]} ==
                       {victim, last})
            os.remove(self.links)
            self.over()
        with self.subTest("a stopped process"):
            pid = self.pid_of(last)
            os.kill(pid, signal.SIGSTOP)
            self.named("stopped", lambda culprit: culprit["worker"] == last)
            self.assertIn(f"kill -CONT {pid}", self.why())
            os.kill(pid, signal.SIGCONT)
            self.over()
        kinds = [row["reason"] for row in self.server.get("/v1/jobs/1/why")["decisions"]]
        for reason in ("STALL_DATA", "STALL_HOST", "STALL_COMPUTE", "STALL_LINK", "STALL_STOPPED",
                       "STALL_OVER"):
            self.assertIn(reason, kinds)


class Replaced(Case):
    patience = "replace_stalled: 4s"

    def test_a_culprit_loses_its_node_and_nobody_else_does(self):
        before = self.workers()
        culprit = before[4]
        self.trouble(culprit, "sleep")  # for good
        self.named("host", lambda row: row["worker"] == culprit)
        self.replaced(before, culprit, "CULPRIT_STALLED")
        self.server.wait_for("the end of the stall", lambda: self.stall() is None)


class Slow(Case):
    patience = "replace_slow: 3s"

    def test_a_late_comer_that_becomes_slow_loses_its_node(self):
        first = self.workers()
        os.kill(self.pid_of(first[2]), signal.SIGKILL)
        self.server.wait_for("a late comer", lambda: len(self.workers()) == WORKERS and
                             set(self.workers()) != set(first))
        late, = set(self.workers()) - set(first)
        self.wait_for_steps(15)  # it has a past to be held against
        before = self.workers()
        self.trouble(late, "slow")
        self.replaced(before, late, "CULPRIT_SLOW")


if __name__ == "__main__":
    unittest.main(verbosity=2, warnings="ignore")
