#!/usr/bin/env python3
"""The PyTorch examples under a real server: `shoal run`, emulated clouds, machines that die.

    torch_run_test.py BUILD lm|finetune [STEPS]

A script of the market kills machines (kill -9, two of them in the middle of a reduction) and takes
one with notice while the job trains; replacements join. The weights at the end, as the workers
print them, must be those of one undisturbed process.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

root = pathlib.Path(__file__).resolve().parents[2]
build = pathlib.Path(sys.argv[1]).resolve()
os.environ["SHOAL"] = str(build / "shoal")
sys.path.insert(0, str(root / "tests/e2e"))
import fake_agent  # noqa: E402
import served  # noqa: E402

STEPS = int(sys.argv[3]) if len(sys.argv) > 3 else 60
SLOTS = 8
served.WAIT_S = 120 + 2 * STEPS
PROGRAMS = {"lm": ["torch_lm.py", "--data", "text", "--width", "32", "--context", "32", "--batch", "2"],
            "finetune": ["hf_finetune.py", "--batch", "2"]}
MARKET = """
seed: 3
emulate: {slot_ms_at_1_ncu: 30}
zones:
  aurora/east-a: {region: east, notice: 2s, boot: {min: 0.1s, max: 0.3s}}
  borealis/east-1: {region: east, notice: 0s, boot: {min: 0.1s, max: 0.3s}}
offers:
  - {zone: aurora/east-a, model: H100, devices: 1, kind: spot, on_demand: 4.5, spot: 1.1, stock: 4}
  - {zone: borealis/east-1, model: A10, devices: 1, kind: spot, on_demand: 1.0, spot: 0.4, stock: 8}
prices: {every: 1s, change_share: 0}
events:
""" + "".join(f"  - {{at_step: {STEPS * share // 100}, preempt: {how}}}\n" for share, how in (
    (10, "{}"), (25, "{during: reduce}"), (40, "{zone: aurora/east-a, notice: 2s}"),
    (55, "{}"), (70, "{during: reduce}")))
JOB = """
name: torch
kind: elastic
needs: {{devices: {{min: 2, max: 4}}}}
elastic: {{slots: {slots}, steps: {steps}, checkpoint_every: 5, work_per_slot: 0.03s}}
run:
  command: {command}
  env: {{PYTHONPATH: {root}/python, SHOAL_LIBRARY: {build}/libshoal.so, OMP_NUM_THREADS: "1"}}
  dir: {folder}
"""


def command_of(name):
    program, *arguments = PROGRAMS[name]
    return [sys.executable, str(root / "examples" / program), *arguments]


def run(server, name, folder):
    """Runs the job as a user does; what `shoal run` and `shoal logs` say."""
    job = pathlib.Path(folder, "job.yaml")
    job.write_text(JOB.format(slots=SLOTS, steps=STEPS, command=command_of(name), root=root,
                              build=build, folder=folder))
    texts = []
    for verb, what in (("run", str(job)), ("logs", "torch")):
        told = subprocess.run([build / "shoal", verb, what, "--data", server.data],
                              env=fake_agent.environment(), capture_output=True, text=True,
                              timeout=served.WAIT_S)
        assert told.returncode == 0, told
        texts.append(told.stdout)
    return texts


def check(server, name, folder, logs):
    os.chdir(folder)
    wanted = fake_agent.alone(command_of(name), SHOAL_STEPS=STEPS, SHOAL_SLOTS=SLOTS,
                              PYTHONPATH=root / "python", OMP_NUM_THREADS=1)
    printed = {line.split()[-1] for line in logs.splitlines() if "weights sha256 " in line}
    assert printed == {wanted}, f"{printed} instead of {wanted}\n{logs[-3000:]}"
    server.connection = None  # the old one has idled too long
    rows = server.get("/v1/jobs/1/progress")["steps"]
    assert [row["step"] for row in rows] == list(range(STEPS))
    for row in rows:
        owned = sum(int(worker["slots"], 16) for worker in row["workers"])
        assert owned == (1 << SLOTS) - 1, row
    workers = {worker["worker"] for row in rows for worker in row["workers"]}
    kinds = [d["kind"] for d in server.get("/v1/jobs/1/why?limit=1000")["decisions"]]
    lost = kinds.count("lost")
    assert lost >= 3, f"only {lost} machines were lost: {kinds}"
    print(f"{name}: {STEPS} steps by {len(workers)} workers, {lost} machines lost: same weights as "
          f"alone, {wanted[:16]}")


def main():
    server = served.Server()
    try:
        with open(os.path.join(server.dir, "market.yaml"), "w") as file:
            file.write(MARKET)
        server.start()
        server.wait_for_offers()
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "text").write_text("\n".join(map(str, range(3000))))
            _, logs = run(server, sys.argv[2], folder)
            check(server, sys.argv[2], folder, logs)
            os.chdir("/")
    finally:
        server.remove()


main()
