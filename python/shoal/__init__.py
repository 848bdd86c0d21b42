"""Shoal: elastic, exact, data-parallel training. See docs/python.md.

``import shoal`` needs the standard library and libshoal; ``import shoal.torch`` needs PyTorch too.
"""
from ._job import Job, JobEnded, Part, Slot, Step, Tensor, join, random
from ._library import VERSION as __version__
from ._library import ShoalError, library

__all__ = ["Job", "JobEnded", "Part", "ShoalError", "Slot", "Step", "Tensor", "join", "library", "random",
           "__version__"]
