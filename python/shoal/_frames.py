"""Python frames for ``shoal why``.

When this worker holds its group up, libshoal asks its thread by SIGURG where it stands. The handler
registered here writes the Python frames beside the status page and passes the signal on to
libshoal's own, which adds the C frames. SHOAL_STACKS=0 turns both off.
"""
from __future__ import annotations

import faulthandler
import os
import signal
from typing import Any

_file: Any = None


def offer() -> None:
    """After joining, so that libshoal's handler is there to be passed on to. Harmless to repeat."""
    global _file
    page = os.environ.get("SHOAL_STATUS")
    if not page or _file is not None or os.environ.get("SHOAL_STACKS") == "0":
        return
    try:
        _file = open(page + ".frames", "ab", buffering=0)  # appended: the reader empties it
        faulthandler.register(signal.SIGURG, file=_file, all_threads=False, chain=True)
    except (AttributeError, OSError, RuntimeError, ValueError):
        _file = None  # no file, no signals here: the C frames have to do
