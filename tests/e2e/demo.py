#!/usr/bin/env python3
"""The demo as a user meets it: it succeeds, twice in a row, and stops cleanly at any moment.

    tests/e2e/demo.py BUILD run     a short run: exit 0, a whole report and summary; then once more
    tests/e2e/demo.py BUILD stop    SIGINT or SIGTERM at several moments: no process, no half file
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import tree

RUN_SECONDS = 240
STOP_SECONDS = 15
# (what the output says at the moment of the signal, the signal, to the whole group as Ctrl-C does)
MOMENTS = [
    ("Emulated on this machine", signal.SIGINT, True),
    ("The market", signal.SIGTERM, False),
    ("The pool fills up", signal.SIGINT, True),
    ("step 1", signal.SIGINT, True),
    ("kill -9 of the server", signal.SIGTERM, False),
    ("The same run on one worker", signal.SIGINT, True),
]
KEYS = """steps slots loss_first loss_last weights_sha256 control_weights_sha256 losses_total
losses_without_notice drains_for_price joins device_models zones steps_lost samples_expected
samples_used_once cost_usd_micros static_cost_usd_micros utilization_ppm wall_s
losses_during_reduction server_restarts redone_slots""".split()


def start(folder, build, output):
    return subprocess.Popen([build / "examples/demo/demo", "--fast"], cwd=folder, stdout=output,
                            stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                            env=tree.environment(build), start_new_session=True)


def check_results(folder):
    summary = json.loads((folder / "out/demo/summary.json").read_text())
    missing = [key for key in KEYS if key not in summary]
    assert not missing, f"summary.json lacks {missing}"
    assert summary["weights_sha256"] == summary["control_weights_sha256"], summary
    assert summary["steps_lost"] == 0, summary
    assert summary["samples_used_once"] == summary["samples_expected"], summary
    assert summary["server_restarts"] == 1, summary
    page = (folder / "out/demo/report.html").read_text()
    assert page.startswith("<!doctype html>") and page.endswith("</html>\n"), "half a report"


def check_nothing_left(folder, output):
    left = tree.descendants()
    assert not left, f"still running: {left}\n{output.read_text()[-2000:]}"
    half = [str(p) for p in folder.rglob("*.tmp*")]
    assert not half, f"half-written: {half}"
    for name in ("report.html", "summary.json"):
        assert not (folder / "out/demo" / name).exists(), f"{name} of an unfinished run"


def run(folder, build):
    output = folder / "output"
    for turn in range(2):
        with output.open("w") as file:
            status = start(folder, build, file).wait(RUN_SECONDS)
        assert status == 0, f"run {turn}: status {status}\n{output.read_text()[-4000:]}"
        check_results(folder)
        assert not tree.descendants(), f"still running: {tree.descendants()}"
        print(f"ok   run {turn + 1}")


def wait_for(process, output, text):
    deadline = time.monotonic() + RUN_SECONDS
    while text not in output.read_text():
        assert process.poll() is None, f"ended before \"{text}\"\n{output.read_text()[-4000:]}"
        assert time.monotonic() < deadline, f"never \"{text}\"\n{output.read_text()[-4000:]}"
        time.sleep(0.02)


def stop(folder, build):
    output = folder / "output"
    for text, number, to_group in MOMENTS:
        output.write_text("")
        with output.open("w") as file:
            process = start(folder, build, file)
            wait_for(process, output, text)
            if to_group:
                os.killpg(process.pid, number)
            else:
                os.kill(process.pid, number)
            status = process.wait(STOP_SECONDS)
        assert status == 130, f"{text}: status {status}\n{output.read_text()[-2000:]}"
        check_nothing_left(folder, output)
        print(f"ok   stopped at \"{text}\"")


def main():
    if len(sys.argv) != 3 or sys.argv[2] not in ("run", "stop"):
        sys.exit(__doc__)
    build = pathlib.Path(sys.argv[1]).resolve()
    tree.adopt()
    folder = tree.make_folder(build)
    try:
        (run if sys.argv[2] == "run" else stop)(folder, build)
    finally:
        tree.end_all()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
