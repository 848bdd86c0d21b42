#!/usr/bin/env python3
"""The command against a real server: exit codes, reasons, names, and a server up and down.

    tests/e2e/cli.py BUILD
"""
import json
import pathlib
import shutil
import subprocess
import sys

import tree

CONFIG = "examples/quickstart/shoal.yaml"
SECONDS = 90


class Shell:
    def __init__(self, build):
        self.build, self.folder = build, tree.make_folder(build)

    def run(self, *words, status=0, says=""):
        """Runs one command; returns what it printed after checking status and text."""
        done = subprocess.run([self.build / "shoal", *words], cwd=self.folder, text=True,
                              capture_output=True, stdin=subprocess.DEVNULL, timeout=SECONDS,
                              env=tree.environment(self.build))
        both = done.stdout + done.stderr
        assert done.returncode == status, f"{words}: status {done.returncode}, not {status}\n{both}"
        assert says in both, f"{words}: no \"{says}\" in\n{both}"
        assert status == 0 or done.stderr.count("\n") >= 1, f"{words}: silent"
        return done.stdout

    def run_into_a_full_disk(self, *words):
        """What it prints is lost, at whatever moment it is written; the command says so and fails."""
        with open("/dev/full", "w") as full:
            done = subprocess.run([self.build / "shoal", *words], cwd=self.folder, text=True,
                                  stdout=full, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                                  timeout=SECONDS, env=tree.environment(self.build))
        assert done.returncode == 1 and "cannot write the output" in done.stderr, (words, done)

    def job(self, name, text):
        (self.folder / name).write_text(text)
        return name


def up_and_down(shell):
    shell.run("up", status=1, says="shoal.yaml: No such file")
    shell.run("up", "--config", CONFIG, says="server is up at http://127.0.0.1:")
    shell.run("up", "--config", CONFIG, says="server is already up")
    shell.run("market", says="borealis/east-1")
    offers = json.loads(shell.run("market", "--json"))["offers"]
    assert all(offer["ncu_milli"] > 0 for offer in offers), offers
    some = json.loads(shell.run("market", "--json", "--zone", "aurora/east-a", "--model", "H100"))["offers"]
    assert {(o["zone"], o["model"]) for o in some} == {("aurora/east-a", "H100")}, some
    assert all(o["history"] and o["survival"]["losses"] == [] for o in some), some
    assert "\033" not in shell.run("market", "--region", "west", says="cheapest in")
    shell.run("market", "--model", "H10", status=1, says="there are: ")
    shell.run("market", "--hours", "soon", status=2, says="--hours takes 1 to 8760, not \"soon\"")
    shell.run("market", "--hours", "1", "import", "x", status=2, says="market import: unknown flag \"--hours\"")
    shell.run("market", "export", status=2, says="shoal market import FILE")
    shell.run("market", "import", "--help", says="usage: shoal market import FILE")
    shell.run("market", "record", "--help", says="--wait SECONDS")
    shell.run("market", "record", "--out", "away.csv", "--server", "http://127.0.0.1:1", "--every", "0.1", "--wait",
              "0.3", status=1, says="gave up after")


def record(shell):
    """What is recorded is read back; a second look adds only what is new."""
    shell.run("market", "record", "--out", "prices/", "--once", says="changes of prices or stock recorded")
    day = next((shell.folder / "prices").glob("prices-*.csv"))
    rows = day.read_text().splitlines()
    assert len(rows) > 4 and ",H100,on_demand," in day.read_text(), rows
    shell.run("market", "import", day, says=f"{len(rows) - 1} rows: {len(rows) - 1} prices")
    with open(day, "a") as file:
        file.write("2026-01-01T00:00:0")  # a crash
    shell.run("market", "record", "--out", "prices", "--once")
    again = day.read_text().splitlines()
    assert again[:len(rows)] == rows and len(set(again)) == len(again), again
    events = [int(row.split(",")[-2]) for row in again[1:]]
    assert events == sorted(events), events
    shell.run("market", "record", status=2, says="record --out FILE|DIR")
    shell.run("market", "record", "--out", "x", "--every", "0", status=2, says="0.1 to 86400")
    shell.run("market", "record", "--out", "catalog/devices.yaml", "--once", status=1,
              says="first line is not that of a recorded market")


def jobs(shell):
    batch = "name: {}\nkind: batch\nrun: {{command: [{}]}}\n"
    good = shell.job("good.yaml", batch.format("good", "echo, hello"))
    bad = shell.job("bad.yaml", batch.format("bad", "\"false\""))
    wrong = shell.job("wrong.yaml", "name: x\nneeds: {devces: 3}\n")
    huge = shell.job("huge.yaml", batch.format("huge", "echo") +
                     "needs: {capabilities: [fp16], devices: {min: 1, max: 1}}\n"
                     "budget: {usd_per_hour: 0.01}\n")
    shell.run("run", good, says="done: job 1")
    shell.run("logs", "good", says="hello")
    shell.run_into_a_full_disk("logs", "good")
    shell.run("why", "1", says="finish")
    shell.run("run", bad, status=1, says="job 2 failed")
    shell.run("run", wrong, status=1, says="wrong.yaml:2: unknown key \"devces\"")
    shell.run("run", huge, status=1, says="raise it to")
    shell.run("plan", huge, status=1, says="would be refused")
    shell.run("run", "missing.yaml", status=1, says="missing.yaml")
    shell.run("why", "nobody", status=1, says="no job \"nobody\"; see: shoal jobs")


def sleeper(shell):
    name = shell.job("sleep.yaml", "name: sleeper\nkind: batch\nrun: {command: [sleep, \"600\"]}\n")
    shell.run("run", name, "--detach", says="job ")
    shell.run("cancel", "sleeper", says="is being cancelled")
    shell.run_into_a_full_disk("run", name, "--detach")
    shell.run("cancel", "sleeper", says="is being cancelled")
    shell.run("drain", "99999", status=1, says="no node 99999 is held")
    rows = json.loads(shell.run("jobs", "--json"))["jobs"]
    assert [row["name"] for row in rows if row["name"] == "sleeper"], rows
    shell.run("cost", "--by", "tenant", says="total $")
    shell.run("pools", says="training")
    shell.run("nodes")


def what_if(shell):
    """The record beside its model and a change; every job has its row."""
    shell.run("replay", says="0 different")
    shell.run("replay", "--from", "30", says="events 30 to")
    shell.run("replay", "--policy", "cheapest", status=2, says="no policy \"cheapest\"; there are as_recorded")
    shell.run("replay", "--data", "nowhere", "--policy", "nosuch", status=2,
              says="no policy \"nosuch\"; there are as_recorded")
    shell.run("replay", "--price", "no.csv", status=1, says="no.csv")
    shell.run("replay", "--price", "spot=2000", status=2, says="above 0 and at most 1000")
    shell.run("replay", "--pool", "good.yaml", status=1, says="good.yaml:")
    (shell.folder / "foreign.csv").write_text("time,zone,type,price\n2020-01-01,z,i,1\n")
    shell.run("replay", "--price", "foreign.csv", status=1, says="none of its series is of an offer")
    shell.run("replay", "--policy", "as_recorded", "--to", "2001-01-01", status=1,
              says="no event of the journal lies in this stretch")
    answer = json.loads(shell.run("replay", "--policy", "on_demand", "--seeds", "3", "--json"))
    cost = answer["sums"]["usd_micros"]
    # How near the two come is for server_rerun_test: here a node lives for seconds, of a loaded machine.
    assert cost["recorded"] > 0 and cost["modelled"]["mean"] > 0, cost
    assert [row["name"] for row in answer["jobs"]][:2] == ["good", "bad"], answer["jobs"]
    again = json.loads(shell.run("replay", "--policy", "on_demand", "--seeds", "3", "--json",
                                 "--to", str(answer["last_event"])))
    assert again == answer
    shell.run("replay", "--pool", CONFIG, "--seeds", "2", says="nine in ten of the 2 worlds")


def down(shell):
    shell.run("up", "--stop", "--config", CONFIG, says="server is stopped")
    shell.run("up", "--stop", "--config", CONFIG, says="no server is running")
    shell.run("jobs", status=1, says="start one with: shoal up")
    left = tree.descendants()
    assert not left, f"still running: {left}"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    tree.adopt()
    shell = Shell(pathlib.Path(sys.argv[1]).resolve())
    try:
        for part in (up_and_down, record, jobs, sleeper, what_if, down):
            part(shell)
            print(f"ok   {part.__name__}")
    finally:
        tree.end_all()
        shutil.rmtree(shell.folder, ignore_errors=True)


if __name__ == "__main__":
    main()
