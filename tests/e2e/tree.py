"""What end-to-end tests share: a folder like the source tree, and the processes below a test."""
import ctypes
import os
import pathlib
import shutil
import signal
import tempfile
import time

PR_SET_CHILD_SUBREAPER = 36
COPIED = ["examples", "catalog", "docs", "python", "tests/scenario", "README.md"]
root = pathlib.Path(__file__).resolve().parents[2]


def adopt():
    """Orphans below this process become its children, so that none can hide."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def make_folder(build):
    """A fresh copy of what users see of the tree; `build` leads to the given build folder."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="shoal-e2e-"))
    for name in COPIED:
        source = root / name
        if source.is_dir():
            shutil.copytree(source, folder / name)
        elif source.exists():
            shutil.copy(source, folder / name)
    (folder / "build").symlink_to(build)
    return folder


def environment(build):
    """That of the user, without words of shoal, BUILD first on the PATH."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("SHOAL_")}
    kept["PATH"] = f"{build}:{kept['PATH']}"
    return kept


def descendants():
    """Every living process below this one as {pid: command line}."""
    parents = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
                state, parent = stat[stat.rindex(")") + 2:].split()[:2]
                if state != "Z":
                    parents[int(entry.name)] = int(parent)
            except (OSError, ValueError):
                pass  # ended meanwhile
    ours, grew = {os.getpid()}, True
    while grew:
        more = {pid for pid, parent in parents.items() if parent in ours} - ours
        ours, grew = ours | more, bool(more)
    found = {}
    for pid in ours - {os.getpid()}:
        try:
            line = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
            found[pid] = line.replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            pass  # ended meanwhile
    return found


def signal_all(number):
    for pid in descendants():
        try:
            os.kill(pid, number)
        except OSError:
            pass  # ended meanwhile


def end_all(patience_s=3):
    """Asks every descendant to stop, kills what has not after a while."""
    deadline = time.monotonic() + patience_s
    signal_all(signal.SIGTERM)
    while descendants():
        if time.monotonic() > deadline:
            signal_all(signal.SIGKILL)
        time.sleep(0.02)
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                break
        except ChildProcessError:
            break
