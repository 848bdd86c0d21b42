#!/usr/bin/env python3
"""Shoal beside Slurm on this machine, in turns: 200 nodes of 8 devices each, real daemons.

    bench_slurm.py BUILD [RUNS]        needs slurmctld, slurmd, slurm-client, munge, libslurm-dev; root

Slurm: one slurmctld, 200 slurmd, tuned (batch_sched_delay=0, depth 1,000), state files as it writes
them by default. Shoal: one server with its journal (synchronous=FULL), 200 agents of the local
driver, which emulates the clouds they come from; jobs are real processes on both sides.

vs_slurm.submit.cN     acknowledged submissions/s, N clients; Slurm by its C API. Nothing can start.
vs_slurm.queue_mb      memory of the controller with 10,000 jobs queued
vs_slurm.lost          of 500 acknowledged jobs, those gone after kill -9 at the last acknowledgement
vs_slurm.restart_ms    start until 10,000 queued jobs are listed again
vs_slurm.allocations   placements/s of 1,000 queued jobs released at once. Slurm: its partition comes UP,
                       first to last by its log, its nodes starting them meanwhile. Shoal: the limit
                       of a tenant is lifted, until a client has read the last (journaled) placement;
                       most agents start theirs after that
vs_slurm.placed        submissions/s that are placed before their answer, 16 clients, while agents start
                       them; beside Slurm's placements/s, for it answers before it places
vs_slurm.start_ms      submission until the job's script runs, idle pool, 15 jobs one after another
"""
import datetime
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build")
RUNS = int(sys.argv[2]) if len(sys.argv) > 2 else 1
os.environ["SHOAL"] = os.path.join(BUILD, "shoal")
sys.path.insert(0, os.path.join(HERE, "..", "tests", "e2e"))
from served import Server  # noqa: E402

NODES, DEVICES, QUEUED, LOST_OF, ALLOCATED, STARTS = 200, 8, 10000, 500, 1000, 15

SLURM_CONF = """
ClusterName=peers
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
SlurmctldPort=16817
AuthType=auth/munge
CryptoType=crypto/munge
AuthInfo=socket={dir}/munge/socket
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
StateSaveLocation={dir}/state
SlurmdSpoolDir={dir}/spool/%n
SlurmctldPidFile={dir}/run/slurmctld.pid
SlurmdPidFile={dir}/run/slurmd.%n.pid
SlurmctldLogFile={dir}/slurmctld.log
SlurmdLogFile={dir}/slurmd.%n.log
SlurmctldDebug=info
SlurmdDebug=error
SwitchType=switch/none
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerType=sched/backfill
SchedulerParameters=default_queue_depth=1000,bf_max_job_test=1000,batch_sched_delay=0,sched_min_interval=10000,bf_interval=5,bf_continue
ReturnToService=2
MaxJobCount=50000
SlurmdParameters=config_overrides
MessageTimeout=60
SlurmdTimeout=600
TreeWidth={nodes}
MailProg=/bin/true
GresTypes=gpu
NodeName=n[1-{nodes}] NodeHostname={host} NodeAddr=127.0.0.1 Port=[17001-{port_end}] CPUs=64 RealMemory=512000 Gres=gpu:a100:{devices} State=UNKNOWN
PartitionName=p Nodes=ALL Default=YES MaxTime=INFINITE State=DOWN
"""


def say(text):
    print(text, file=sys.stderr, flush=True)


def rss_mb(pid):
    with open(f"/proc/{pid}/status") as status:
        return int(re.search(r"VmRSS:\s*(\d+)", status.read())[1]) / 1024


def wait_for(what, check, bound_s=60):
    say(f"waiting for {what}")
    until = time.monotonic() + bound_s
    while time.monotonic() < until:
        found = check()
        if found:
            return found
        time.sleep(0.05)
    raise SystemExit(f"bench_slurm: waited {bound_s} s for {what}")


class Slurm:
    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="shoal-slurm-")
        for folder in ("munge", "state", "spool", "run", "bin", "dev"):
            os.mkdir(os.path.join(self.dir, folder))
        for n in range(1, NODES + 1):
            os.mkdir(f"{self.dir}/spool/n{n}")
        for i in range(DEVICES):
            open(f"{self.dir}/dev/gpu{i}", "w").close()
        for name in ("slurmctld", "slurmd", "slurmstepd"):  # they look at argv[0]
            os.symlink(f"/usr/sbin/{name}-wlm", f"{self.dir}/bin/{name}")
        self.write("slurm.conf", SLURM_CONF.format(host=os.uname().nodename, dir=self.dir,
                                                   nodes=NODES, devices=DEVICES,
                                                   port_end=17000 + NODES))
        self.write("gres.conf", f"NodeName=n[1-{NODES}] Name=gpu Type=a100 "
                                f"File={self.dir}/dev/gpu[0-{DEVICES - 1}]\n")
        self.environment = dict(os.environ, SLURM_CONF=f"{self.dir}/slurm.conf")
        os.chmod(f"{self.dir}", 0o755)
        os.chmod(f"{self.dir}/munge", 0o755)
        with open(f"{self.dir}/munge/key", "wb") as key:
            key.write(os.urandom(1024))
        os.chmod(f"{self.dir}/munge/key", 0o600)
        self.daemon("munged", f"--socket={self.dir}/munge/socket", f"--key-file={self.dir}/munge/key",
                    f"--log-file={self.dir}/munge/log", f"--pid-file={self.dir}/munge/pid",
                    f"--seed-file={self.dir}/munge/seed")

    def write(self, name, text):
        with open(os.path.join(self.dir, name), "w") as file:
            file.write(text)

    def run(self, *command):
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"bench_slurm: {' '.join(command)}: {done.stderr.strip()}")
        return done.stdout

    def daemon(self, *command):
        """Daemons keep what they inherit open: no pipes."""
        done = subprocess.run(command, env=self.environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if done.returncode != 0:
            raise SystemExit(f"bench_slurm: {' '.join(command)} did not start; see {self.dir}")

    def control(self, *options):
        self.daemon(f"{self.dir}/bin/slurmctld", *options)

    def start(self, *options):
        self.control(*options)
        for n in range(1, NODES + 1):
            self.daemon(f"{self.dir}/bin/slurmd", "-N", f"n{n}", "-d", f"{self.dir}/bin/slurmstepd")
        wait_for("200 idle nodes", lambda: self.run("sinfo", "-h", "-t", "idle", "-o", "%D").strip()
                 == str(NODES))

    def pid(self):
        with open(f"{self.dir}/run/slurmctld.pid") as file:
            return int(file.read())

    def partition(self, state):
        self.run("scontrol", "update", "PartitionName=p", f"State={state}")

    def submit(self, count, clients, script):
        """Acknowledged jobs a second."""
        acknowledged, took_us = self.run(f"{BUILD}/bench/peer_slurm", str(count), str(clients),
                                         script).split()
        return int(acknowledged) / (int(took_us) / 1e6)

    def listed(self):
        done = subprocess.run(["squeue", "-h", "-o", "%i"], env=self.environment,
                              capture_output=True, text=True)
        return len(done.stdout.split()) if done.returncode == 0 else -1

    def cancel_all(self):
        self.run("scancel", "-u", "root")
        wait_for("an empty queue", lambda: self.listed() == 0)

    def kill(self):
        pid = self.pid()
        os.kill(pid, signal.SIGKILL)
        wait_for("the end of slurmctld", lambda: not os.path.exists(f"/proc/{pid}"))

    def close(self):
        for _ in range(2):  # a step that is just being made
            for pid in filter(str.isdigit, os.listdir("/proc")):
                try:
                    with open(f"/proc/{pid}/environ", "rb") as environ:
                        ours = self.dir.encode() in environ.read()
                    if ours and int(pid) != os.getpid():
                        os.kill(int(pid), signal.SIGKILL)
                except OSError:
                    pass
            time.sleep(0.5)
        shutil.rmtree(self.dir, ignore_errors=True)


def measure_slurm():
    slurm, got = Slurm(), {}
    held = "#!/bin/sh\nexec sleep 600\n"
    try:
        slurm.start("-c")  # its partition is DOWN, also after a restart: jobs stay queued
        got["submit.c1"] = slurm.submit(1000, 1, held)
        got["submit.c16"] = slurm.submit(1600, 16, held)
        slurm.submit(QUEUED - 2600, 2, held)
        got["queue_mb"] = rss_mb(slurm.pid())
        time.sleep(8)  # its state file is written on a timer; the restart is to find it
        slurm.kill()
        began = time.monotonic()
        slurm.control()
        wait_for("10,000 jobs", lambda: slurm.listed() == QUEUED)
        got["restart_ms"] = 1000 * (time.monotonic() - began)
        slurm.cancel_all()
        slurm.submit(LOST_OF, 1, held)
        slurm.kill()
        slurm.control()
        wait_for("its answers", lambda: slurm.listed() >= 0)
        got["lost"] = LOST_OF - slurm.listed()
        slurm.cancel_all()
        slurm.partition("UP")
        stamp = os.path.join(slurm.dir, "stamp")
        got["start_ms"] = statistics.median(
            first_line(stamp, lambda: slurm.submit(1, 1, f"#!/bin/sh\ndate +%s%N >{stamp}\n"))
            for _ in range(STARTS))
        slurm.partition("DOWN")
        slurm.submit(ALLOCATED, 2, held)
        with open(f"{slurm.dir}/slurmctld.log") as log:
            before = len(log.read())
        slurm.partition("UP")
        # its main scheduler and its backfill share the work
        pattern = re.compile(r"^\[([^\]]+)\] (?:sched: Allocate|sched/backfill: .*Started) JobId=", re.M)

        def allocations():
            with open(f"{slurm.dir}/slurmctld.log") as log:
                times = pattern.findall(log.read()[before:])
            return times if len(times) >= ALLOCATED else None
        times = [datetime.datetime.fromisoformat(t) for t in wait_for("allocations", allocations, 180)]
        got["allocations"] = (len(times) - 1) / (times[-1] - times[0]).total_seconds()
        got["placed"] = got["allocations"]
    finally:
        slurm.close()
    return got


def first_line(stamp, submit):
    """Milliseconds from the submission until the job wrote the time."""
    if os.path.exists(stamp):
        os.unlink(stamp)
    began = time.time_ns()
    submit()

    def written():
        try:
            with open(stamp) as file:
                text = file.read()
            return int(text) if text.endswith("\n") else None
        except OSError:
            return None
    return (wait_for("the job's script", written) - began) / 1e6


CONFIG = """
providers: [{name: local, driver: local, scenario: market.yaml}]
limits: {nodes: 1024, jobs: 20000}
timing: {idle_release: 1h}
tenants: {crowd: {limits: {workers: %d}}}
"""
UNLIMITED = 1 << 20
MARKET = f"""
seed: 3
zones:
  a/b: {{region: east, notice: 0s, boot: {{min: 0.1s, max: 0.2s}}}}
offers:
  - {{zone: a/b, model: A100-40GB, devices: {DEVICES}, kind: on_demand, on_demand: 22.4, stock: %d}}
  - {{zone: a/b, model: A10, devices: 1, kind: on_demand, on_demand: 1.0, stock: 1}}
"""
JOB = """name: job
kind: batch
owner: {tenant: crowd}
needs: {capabilities: [tensor-cores, 40gb-vram]}
run: {command: [sh, -c, "%s"], dir: /}
"""


class Shoal(Server):
    def __init__(self, stock):
        super().__init__(CONFIG % UNLIMITED)
        with open(os.path.join(self.dir, "market.yaml"), "w") as file:
            file.write(MARKET % stock)

    def send(self, count, clients, command):
        body = JOB % command
        path = os.path.join(self.dir, "request")
        with open(path, "w") as file:
            file.write(f"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "
                       f"{self.token}\r\nContent-Length: {len(body)}\r\n\r\n{body}")
        done = subprocess.run([f"{BUILD}/bench/http_send", str(self.port), str(clients), str(count),
                               "201", path], capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"bench_slurm: http_send: {done.stderr}")
        return float(done.stdout)

    def count(self, *states):
        text = self.ask("GET", "/metrics")[1]
        return sum(int(n) for state, n in re.findall(r'^shoal_jobs{state="(\w+)"} (\d+)', text, re.M)
                   if state in states)

    def limit_workers(self, count):
        """Of the tenant, from now on: read when the server starts."""
        with open(self.config, "w") as file:
            file.write(CONFIG % count)
        self.kill()
        self.start()

    def decisions(self, after):
        while rows := self.get(f"/v1/decisions?after={after}&limit=10000")["decisions"]:
            after = rows[-1]["id"]
            yield from rows

    def released_at_once(self, count):
        """Placements/s of so many queued jobs, while others run: from the decision until a client has
        read the last one, which is journaled by then (so is the end of a restart, and JSON)."""
        self.limit_workers(1)
        self.send(count, 16, "exec sleep 600")
        if self.count("queued") != count:
            raise SystemExit(f"bench_slurm: {self.count('queued')} jobs wait, not {count}")
        last = max(row["id"] for row in self.decisions(0))
        self.limit_workers(UNLIMITED)
        placed, bound = [], time.monotonic() + 60
        while len(placed) < count:
            if time.monotonic() > bound:
                raise SystemExit(f"bench_slurm: only {len(placed)} of {count} jobs were placed")
            for row in self.decisions(last):
                last = row["id"]
                placed += [row["t"]] if row["reason"] == "GANG_READY" else []
        return count / (time.time() - min(placed) / 1e6)

    def live(self):
        return self.count("queued", "starting", "running")


def measure_shoal_queue(got):
    server = Shoal(stock=1)  # one node: a job that nothing could ever run would be refused
    held = "exec sleep 600"
    try:
        server.start()
        server.wait_for_offers()
        server.send(DEVICES, 1, held)
        got["submit.c1"] = server.send(1000, 1, held)
        got["submit.c16"] = server.send(1600, 16, held)
        server.send(QUEUED - 2600, 16, held)
        got["queue_mb"] = rss_mb(server.process.pid)
        server.kill()
        began = time.monotonic()
        server.start()
        wait_for("10,000 jobs", lambda: server.live() == QUEUED + DEVICES)
        got["restart_ms"] = 1000 * (time.monotonic() - began)
        server.send(LOST_OF, 1, held)
        server.kill()
        server.start()
        got["lost"] = QUEUED + DEVICES + LOST_OF - server.live()
    finally:
        server.remove()


def warm_up(server):
    """All nodes up and idle: jobs on every device, then cancelled."""
    server.send(NODES * DEVICES, 16, "exec sleep 600")
    wait_for("running jobs", lambda: server.count("running") == NODES * DEVICES, 180)
    for first in range(1, NODES * DEVICES + 1):
        server.ask("POST", f"/v1/jobs/{first}/cancel")
    wait_for("an idle pool", lambda: all(
        node["devices_free"] == DEVICES for node in server.get("/v1/nodes")["nodes"]), 180)


def measure_shoal():
    got = {}
    measure_shoal_queue(got)
    server = Shoal(stock=NODES)
    try:
        server.start()
        server.wait_for_offers()
        warm_up(server)
        stamp = os.path.join(server.dir, "stamp")
        got["start_ms"] = statistics.median(
            first_line(stamp, lambda: server.send(1, 1, f"date +%s%N >{stamp}"))
            for _ in range(STARTS))
        got["placed"] = server.send(NODES * DEVICES - ALLOCATED, 16, "exec sleep 600")
        if server.count("queued") != 0:
            raise SystemExit("bench_slurm: not every job was placed before its answer")
        got["allocations"] = server.released_at_once(ALLOCATED)
    finally:
        server.remove()
    return got


UNITS = {"submit.c1": ("jobs/s", "higher"), "submit.c16": ("jobs/s", "higher"),
         "queue_mb": ("MB", "lower"), "lost": ("jobs", "lower"), "restart_ms": ("ms", "lower"),
         "allocations": ("placements/s", "higher"), "placed": ("jobs/s", "higher"),
         "start_ms": ("ms", "lower")}


def main():
    if shutil.which("slurmctld-wlm", path="/usr/sbin") is None or \
            not os.path.exists(f"{BUILD}/bench/peer_slurm") or os.getuid() != 0:
        say("bench_slurm: Slurm is not here (or this is not root): skipped")
        return
    ours, theirs = [], []
    for _ in range(RUNS):
        theirs.append(measure_slurm())
        say(f"slurm {theirs[-1]}")
        ours.append(measure_shoal())
        say(f"shoal {ours[-1]}")
    for name, (unit, better) in UNITS.items():
        a = statistics.median(run[name] for run in ours)
        b = statistics.median(run[name] for run in theirs)
        print(json.dumps({"name": f"vs_slurm.{name}", "value": round(a, 1), "unit": unit,
                          "peer": "Slurm, same machine, 200 slurmd", "peer_value": round(b, 1),
                          "ratio": round(a / b, 4) if b else None, "better": better, "runs": RUNS}))


main()
