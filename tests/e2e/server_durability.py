#!/usr/bin/env python3
"""What the server has acknowledged it keeps: kill -9 at the worst moment, full disks, restarts."""
import json
import os
import signal
import sqlite3
import subprocess
import threading
import time
import unittest

from served import PROGRAM, Case, job, main


class LostSubmissions(Case):
    def test_kill_right_after_the_500th_answer_three_times(self):
        known = set()
        self.server.start()
        self.server.wait_for_offers()
        for round_number in range(3):
            known |= self.submit_500(round_number)
            self.server.kill()
            self.server.start()
            self.assertLess(self.server.processor_s(), 1.0, "kill -9 to serving again")
            rows = self.server.get("/v1/jobs?limit=10000")["jobs"]
            self.assertEqual(known - {row["job"] for row in rows}, set(), "lost submissions")
            self.assertEqual(len(known), 500 * (round_number + 1), "a number was given out twice")

    def submit_500(self, round_number):
        """From 16 connections at once; returns when the 500th answer is there."""
        answers = self.server.submit_many(job(f"r{round_number}-{i}") for i in range(500))
        self.assertEqual({status for status, _ in answers}, {201})
        return {answer["job"] for _, answer in answers}


class Restart(Case):
    def test_kill_in_the_middle_of_a_run_keeps_jobs_nodes_and_money(self):
        self.server.start()
        self.server.wait_for_offers()
        self.assertEqual(self.server.submit(job("long"))[0], 201)
        self.server.wait_for("a running job",
                             lambda: self.server.get("/v1/jobs/1")["state"] == "running")
        self.server.wait_for("money", lambda: self.server.get("/v1/jobs/1")["usd_micros"] > 0)
        before = self.server.get("/v1/jobs/1"), self.server.get("/v1/nodes")["nodes"][0]
        why = self.server.get("/v1/jobs/1/why")["decisions"]
        self.server.kill()
        self.server.start()
        job_row, node_row = self.server.get("/v1/jobs/1"), self.server.get("/v1/nodes")["nodes"][0]
        for name in "job name class kind state region submitted_us started_us".split():
            self.assertEqual(before[0][name], job_row[name], name)
        for name in "node zone model capacity ordered_us".split():
            self.assertEqual(before[1][name], node_row[name], name)
        self.assertEqual(self.server.get("/v1/jobs/1/why")["decisions"][-len(why):], why)
        self.server.wait_for("the agent", lambda: self.server.get("/v1/nodes")["nodes"][0]
                             ["agent_heard_us"] > before[1]["agent_heard_us"])
        self.server.wait_for("more money", lambda: self.server.get("/v1/jobs/1")["usd_micros"] >
                             before[0]["usd_micros"])
        worker = node_row["leases"][0]["worker"]
        self.assertEqual(worker, before[1]["leases"][0]["worker"], "the same worker goes on")
        self.assertEqual(self.server.get("/v1/jobs/1")["state"], "running")
        self.assert_replay_is_the_same()
        self.server.stop()
        self.assert_replay_tells_a_change()

    def assert_replay_tells_a_change(self):
        with sqlite3.connect(os.path.join(self.server.data, "journal.db")) as journal:
            self.assertEqual(journal.execute("UPDATE decisions SET a = a + 1 WHERE id = (SELECT "
                                             "max(id) FROM decisions)").rowcount, 1)
        done = subprocess.run([PROGRAM, "replay", "--data", self.server.data, "--json"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        told = json.loads(done.stdout)["differences"]
        self.assertEqual([(row["of"], row["text"]) for row in told],
                         [("decision", "differs from what was recorded")])
        self.assertNotEqual(told[0]["recorded"], "nothing")

    def assert_replay_is_the_same(self):
        """Beside the running server: all it has decided and booked, across the kill."""
        done = subprocess.run([PROGRAM, "replay", "--data", self.server.data, "--json"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for name, least in ("decisions", 3), ("entries", 1):
            count = json.loads(done.stdout)[name]
            self.assertEqual(count["differences"], 0)
            self.assertGreaterEqual(count["same"], least)

    def test_ledger_and_bill_agree_over_kills(self):
        self.server.start()
        self.server.wait_for_offers()
        for number in range(3):
            self.assertEqual(self.server.submit(job(f"short-{number}", "exec true"))[0], 201)
            self.server.kill()
            self.server.start()
        self.server.wait_for("the end", lambda: {row["state"] for row in self.server.get("/v1/jobs")
                                                 ["jobs"]} == {"done"})
        self.server.wait_for("no nodes", lambda: not self.server.get("/v1/nodes")["nodes"])
        cost = self.server.get("/v1/cost")
        self.assertEqual(cost["total_usd_micros"], cost["billed_usd_micros"])
        entries = self.server.get("/v1/ledger?limit=10000")["entries"]
        self.assertEqual(sum(entry["usd_micros"] for entry in entries), cost["billed_usd_micros"])

    def test_changed_timing_is_taken_over(self):
        self.server.start()
        self.server.wait_for_offers()
        self.assertEqual(self.server.submit(job("a"))[0], 201)
        self.assertEqual(self.server.stop(), 0)
        with open(self.server.config) as file:
            text = file.read()
        with open(self.server.config, "w") as file:
            file.write(text.replace("idle_release: 1s", "idle_release: 2s"))
        self.server.start()
        self.assertEqual(self.server.get("/v1/jobs/1")["name"], "a")
        self.server.kill()
        self.server.start()
        self.assertEqual(self.server.get("/v1/jobs/1")["name"], "a")


TRAINING = """
name: training
kind: elastic
needs: {devices: {min: 2, max: 3}}
elastic: {slots: 8, steps: 40, checkpoint_every: 10}
run:
  command: [PROGRAM, --data, TEXT]
  env: {OPENBLAS_NUM_THREADS: "1"}
  dir: /
"""


class Training(Case):
    """An elastic job on emulated machines."""

    market = """
seed: 3
emulate: {slot_ms_at_1_ncu: 10}
zones:
  aurora/east-a: {region: east, notice: 0s, boot: {min: 0.05s, max: 0.1s}}
offers:
  - {zone: aurora/east-a, model: A10, devices: 1, kind: on_demand, on_demand: 1.00, stock: 3}
"""

    def test_kills_of_the_server_lose_no_step_and_no_worker(self):
        text = os.path.join(self.server.dir, "text")
        with open(text, "w") as file:
            file.writelines(f"{i} times {i} makes {i * i}.\n" for i in range(10000))
        with open(os.path.join(self.server.dir, "market.yaml"), "w") as file:
            file.write(self.market)
        program = os.path.join(os.path.dirname(PROGRAM), "examples/lm/lm")
        self.server.start()
        self.server.wait_for_offers()
        status, answer = self.server.submit(
            TRAINING.replace("PROGRAM", program).replace("TEXT", text))
        self.assertEqual(status, 201, answer)
        for step in (5, 15, 25):
            self.server.wait_for(f"step {step}", lambda: self.steps()[-1:] >= [step])
            workers = self.workers()
            self.server.kill()
            self.server.start()
            self.assertEqual(self.workers(), workers)
        self.server.wait_for("the end", lambda: self.server.get("/v1/jobs/1")["state"] == "done")
        self.assertEqual(self.steps(), list(range(40)))
        rows = self.server.get("/v1/jobs/1/progress")["steps"]
        for row in rows:
            masks = [int(worker["slots"], 16) for worker in row["workers"]]
            self.assertEqual(sum(masks), 0xff, "each slot of a step belongs to one worker")
        kinds = {d["kind"] for d in self.server.get("/v1/jobs/1/why")["decisions"]}
        self.assertNotIn("lost", kinds)

    def steps(self):
        found, path = [], "/v1/jobs/1/progress"
        while rows := self.server.get(path)["steps"]:  # pages of 1,000
            found += [row["step"] for row in rows]
            path = f"/v1/jobs/1/progress?after={found[-1]}"
        return found

    def workers(self):
        return {lease["worker"] for node in self.server.get("/v1/nodes")["nodes"]
                for lease in node["leases"]}


class Outage(Training):
    """The server is gone for longer than it would believe in a silent agent. OUTAGE_S: how long."""
    outage_s = float(os.environ.get("OUTAGE_S", "5"))
    test_kills_of_the_server_lose_no_step_and_no_worker = None  # Training has it

    def setUp(self):
        super().setUp()
        with open(self.server.config) as file:
            text = file.read()
        with open(self.server.config, "w") as file:
            file.write(text.replace("lease: 15s", f"agent_lease: 2s, lease: {self.outage_s + 30}s"))

    def workers_running(self):
        """pid by worker id of the processes of this server's jobs."""
        found = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ") as file:
                    entries = dict(e.split("=", 1) for e in file.read().split("\0") if "=" in e)
            except (OSError, ValueError):
                continue  # another user's, or gone
            if entries.get("SHOAL_STATUS", "").startswith(self.server.dir):
                found[int(entries["SHOAL_WORKER"])] = int(pid)
        return found

    def run_through(self, in_between):
        steps = int(30 + 12 * self.outage_s)
        text = os.path.join(self.server.dir, "text")
        with open(text, "w") as file:
            file.writelines(f"{i} times {i} makes {i * i}.\n" for i in range(10000))
        with open(os.path.join(self.server.dir, "market.yaml"), "w") as file:
            file.write(self.market)
        program = os.path.join(os.path.dirname(PROGRAM), "examples/lm/lm")
        self.server.start()
        self.server.wait_for_offers()
        status, answer = self.server.submit(
            TRAINING.replace("PROGRAM", program).replace("TEXT", text)
            .replace("steps: 40", f"steps: {steps}"))
        self.assertEqual(status, 201, answer)
        self.server.wait_for("step 10", lambda: self.steps()[-1:] >= [10])
        before, last = self.workers(), self.steps()[-1]
        self.server.kill()
        time.sleep(self.outage_s / 2)
        in_between()
        time.sleep(self.outage_s / 2)
        self.server.start()
        self.server.wait_for("the news", lambda: self.steps()[-1:] > [last])
        yield before
        self.server.wait_for("the end", lambda: self.server.get("/v1/jobs/1")["state"] == "done",
                             bound_s=60 + self.outage_s)
        self.assertEqual(self.steps(), list(range(steps)))
        self.server.wait_for("no nodes", lambda: not self.server.get("/v1/nodes")["nodes"])
        cost = self.server.get("/v1/cost")
        self.assertEqual(cost["total_usd_micros"], cost["billed_usd_micros"])

    def test_training_goes_on_and_everything_is_told_afterwards(self):
        for before in self.run_through(lambda: None):
            self.assertEqual(self.workers(), before, "the same workers go on")
            kinds = {d["kind"] for d in self.server.get("/v1/jobs/1/why")["decisions"]}
            self.assertNotIn("lost", kinds)

    def test_a_reporter_that_dies_meanwhile_takes_no_step_along(self):
        def kill_reporter():
            running = self.workers_running()
            worker = running[min(running)]  # the lowest id reports
            with open(f"/proc/{worker}/stat") as file:
                agent = int(file.read().rsplit(")", 1)[1].split()[1])
            os.kill(agent, signal.SIGKILL)  # and what it had kept for the server

        for _ in self.run_through(kill_reporter):
            pass


class Keys(Case):
    def test_the_same_key_gives_the_same_job_also_at_once_and_after_a_kill(self):
        self.server.start()
        self.server.wait_for_offers()
        key = {"Idempotency-Key": "the-one"}
        answers = []

        def submit():
            answers.append(self.server.submit(job("once"), headers=key,
                                              connection=self.server.connect()))

        threads = [threading.Thread(target=submit) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual({answer["job"] for _, answer in answers}, {1})
        self.assertEqual(sorted(status for status, _ in answers), [200] * 7 + [201])
        self.server.kill()
        self.server.start()
        self.assertEqual(self.server.submit(job("once"), headers=key), (200, answers[0][1]))
        self.assertEqual(len(self.server.get("/v1/jobs")["jobs"]), 1)


class FullDisk(Case):
    def test_what_does_not_fit_is_refused_and_leaves_nothing(self):
        self.server.start("--journal-max-bytes", "400000")
        self.server.wait_for_offers()
        taken, text = [], None
        for number in range(2000):
            status, text, _ = self.server.ask("POST", "/v1/jobs", job(f"j{number}", "x" * 4000))
            if status != 201:
                break
            taken.append(json.loads(text)["job"])
        self.assertEqual(status, 507)
        self.assertIn("free space", self.assert_sentence(text))
        self.assertGreater(len(taken), 5)
        for _ in range(2):  # the key of a failed submission is free again
            status, text, _ = self.server.ask("POST", "/v1/jobs", job("keyed", "x" * 12000),
                                              headers={"Idempotency-Key": "k"})
            self.assertEqual(status, 507, text)
        status, text, _ = self.server.ask("GET", "/healthz")
        self.assertEqual(status, 503)
        self.assertEqual([row["job"] for row in self.server.get("/v1/jobs")["jobs"]], taken)
        self.server.kill()
        self.server.start()  # without the limit: as if space had been freed
        self.assertEqual([row["job"] for row in self.server.get("/v1/jobs")["jobs"]], taken)
        self.assertEqual(self.server.submit(job("again"))[0], 201)
        self.assertEqual(self.server.ask("GET", "/healthz")[0], 200)


class Damage(Case):
    def test_a_damaged_journal_is_told(self):
        self.server.start()
        self.server.wait_for_offers()
        self.assertEqual(self.server.submit(job("a"))[0], 201)
        self.server.kill()
        with sqlite3.connect(os.path.join(self.server.data, "journal.db")) as db:
            db.execute("DELETE FROM events WHERE seq = 3")
        with self.assertRaisesRegex(AssertionError, "damaged at event 3"):
            self.server.start()
        self.server.process = None

    def test_a_journal_without_its_newest_part_is_told(self):
        self.server.start()
        self.server.wait_for_offers()
        self.assertEqual(self.server.submit(job("a"))[0], 201)
        self.server.kill()
        os.unlink(os.path.join(self.server.data, "journal.db-wal"))
        with self.assertRaisesRegex(AssertionError, "were acknowledged.*remove .*journal.db-mark"):
            self.server.start()
        os.unlink(os.path.join(self.server.data, "journal.db-mark"))
        self.server.start()  # told to go on with what is left
        self.assertEqual(self.server.get("/v1/jobs")["jobs"], [])


if __name__ == "__main__":
    main()
