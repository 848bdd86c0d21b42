"""Finds libshoal, checks that it fits this package, and gives its calls and structs.

The structs of ``include/shoal.h`` are not copied here: ``shoal_fields()`` tells where the fields of
the library at hand lie, and :class:`Record` sets them by name. A field that only the library knows
stays zero, which always means "not used"; one that only this package knows is refused when used.
"""
from __future__ import annotations

import ctypes
import ctypes.util
import os
import pathlib
from typing import Any, Dict, List, Optional, Tuple

VERSION = "0.1.0"
NAME = "libshoal.so"


class ShoalError(Exception):
    """What went wrong, as one sentence: what, where, what to do."""


class _Field(ctypes.Structure):
    _fields_ = [("owner", ctypes.c_char_p), ("name", ctypes.c_char_p),
                ("offset", ctypes.c_uint32), ("bytes", ctypes.c_uint32)]


#: Types of the fields that this package uses; sizes are compared with the library's.
FIELDS: Dict[str, Dict[str, Any]] = {
    "shoal_tensor": {
        "name": ctypes.c_char_p, "data": ctypes.c_void_p, "shape": ctypes.c_uint64 * 4,
        "dims": ctypes.c_uint32},
    "shoal_options": {
        "params": ctypes.c_void_p, "state": ctypes.c_void_p, "param_count": ctypes.c_uint32,
        "state_count": ctypes.c_uint32, "slots": ctypes.c_uint32, "steps": ctypes.c_uint64,
        "samples_per_slot": ctypes.c_uint32, "tokens_per_sample": ctypes.c_uint32,
        "checkpoint_dir": ctypes.c_char_p, "checkpoint_every": ctypes.c_uint32,
        "identity": ctypes.c_uint64, "moment_count": ctypes.c_uint32,
        "moment_names": ctypes.c_void_p, "on_nan": ctypes.c_uint32},
    "shoal_work": {
        "kind": ctypes.c_int, "step": ctypes.c_uint64, "slot": ctypes.c_uint32,
        "gradient": ctypes.c_void_p, "loss": ctypes.c_float, "gradient_norm": ctypes.c_double,
        "tensor": ctypes.c_uint32, "first": ctypes.c_uint64, "count": ctypes.c_uint64,
        "weights": ctypes.c_void_p, "moment": ctypes.c_void_p * 4, "last": ctypes.c_uint8},
}


def _candidates() -> List[Tuple[str, str]]:
    """Places to look at as (path, why), first come first served."""
    here = pathlib.Path(__file__).resolve().parent
    chosen = os.environ.get("SHOAL_LIBRARY")
    if chosen:
        return [(chosen, "SHOAL_LIBRARY")]
    found = [(str(here / NAME), "beside the package"),
             (str(here.parents[1] / "build" / NAME), "the build folder of the checkout")]
    system = ctypes.util.find_library("shoal")
    if system:
        found.append((system, "the system's libraries"))
    return found


def _open() -> Tuple[ctypes.CDLL, str]:
    looked = []
    for path, why in _candidates():
        if os.sep in path and not os.path.exists(path):
            looked.append(f"{path} ({why})")
            continue
        try:
            return ctypes.CDLL(path), path
        except OSError as error:
            raise ShoalError(f"{path} ({why}) cannot be loaded: {error}; build it again or set "
                             "SHOAL_LIBRARY to one that fits this machine") from None
    raise ShoalError(f"{NAME} is not to be found; looked at: {', '.join(looked)}. Build it in a "
                     "checkout of Shoal (meson setup build && ninja -C build) and set "
                     f"SHOAL_LIBRARY=/path/to/checkout/build/{NAME}")


class Library:
    """The loaded library. ``call`` is the ctypes handle with all signatures set."""

    def __init__(self) -> None:
        self.call, self.path = _open()
        self.version = self._check_version()
        self.rows, self.sizes = self._read_fields()
        self._declare()

    def _check_version(self) -> str:
        try:
            number = ctypes.CFUNCTYPE(ctypes.c_uint32)(("shoal_version", self.call))()
        except AttributeError:
            raise ShoalError(f"{self.path} is older than version 0.1.0 or is another library; this "
                             f"package is {VERSION}: install both from one checkout") from None
        version = f"{number >> 16}.{number >> 8 & 255}.{number & 255}"
        if version.split(".")[:2] != VERSION.split(".")[:2]:
            raise ShoalError(f"{self.path} is version {version}, this package is {VERSION}: "
                             "install both from one checkout")
        return version

    def _read_fields(self) -> Tuple[Dict[str, Dict[str, Tuple[int, int]]], Dict[str, int]]:
        rows: Dict[str, Dict[str, Tuple[int, int]]] = {}
        sizes: Dict[str, int] = {}
        count = ctypes.c_uint32()
        self.call.shoal_fields.restype = ctypes.POINTER(_Field)
        table = self.call.shoal_fields(ctypes.byref(count))
        for field in table[:count.value]:
            owner = field.owner.decode()
            if field.name is None:
                sizes[owner], rows[owner] = field.bytes, {}
            else:
                rows[owner][field.name.decode()] = (field.offset, field.bytes)
        return rows, sizes

    def _declare(self) -> None:
        call, job = self.call, ctypes.c_void_p
        signatures = {
            "shoal_join": (job, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]),
            "shoal_next": (ctypes.c_bool, [job, ctypes.c_void_p]),
            "shoal_submit": (None, [job, ctypes.c_float]),
            "shoal_close": (ctypes.c_int, [job]),
            "shoal_ended": (ctypes.c_int, [job, ctypes.POINTER(ctypes.c_char_p)]),
            "shoal_sample": (ctypes.c_uint64,
                             [job, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint32]),
            "shoal_random": (ctypes.c_uint64, [ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint32,
                                               ctypes.c_uint64]),
        }
        optional = {  # of newer libraries
            "shoal_phase": (None, [job, ctypes.c_int]),
            "shoal_ready": (None, [job, ctypes.c_uint64, ctypes.c_uint64]),
        }
        self.calls = {"shoal_version", "shoal_fields", *signatures, *optional}
        for name, (result, arguments) in {**signatures, **optional}.items():
            if name in optional and not hasattr(call, name):
                continue
            function = getattr(call, name)
            function.restype, function.argtypes = result, arguments

    def has(self, name: str) -> bool:
        """Does this library have the call?"""
        return hasattr(self.call, name)


class Record:
    """One struct of shoal.h (or an array of them), its fields set and read by name."""

    def __init__(self, library: Library, owner: str, count: int = 1) -> None:
        self.library, self.owner, self.size = library, owner, library.sizes[owner]
        self.memory = (ctypes.c_char * (self.size * max(count, 1)))()
        self._kept: List[Any] = []  # what the pointers in the record lead to

    def cell(self, name: str, index: int = 0) -> Any:
        """The ctypes object that lies over a field."""
        offset, size = self.library.rows[self.owner][name]
        kind = FIELDS[self.owner][name]
        if ctypes.sizeof(kind) != size:
            raise ShoalError(f"{self.library.path}: field {name} of {self.owner} has {size} bytes, "
                             f"this package expects {ctypes.sizeof(kind)}: install both from one "
                             "checkout")
        return kind.from_buffer(self.memory, index * self.size + offset)

    def set(self, index: int = 0, **values: Any) -> None:
        for name, value in values.items():
            if name not in self.library.rows[self.owner]:
                if value:
                    raise ShoalError(f"{self.library.path} (version {self.library.version}) has no "
                                     f"{name} in {self.owner}: use a newer library, or leave it out")
                continue
            cell = self.cell(name, index)
            if isinstance(cell, ctypes.Array):
                cell[:len(value)] = list(value)
            else:
                cell.value = value
            self._kept.append(value)

    def address(self) -> int:
        return ctypes.addressof(self.memory)


_loaded: Optional[Library] = None


def library() -> Library:
    """The library of this process, loaded on first use."""
    global _loaded
    if _loaded is None:
        _loaded = Library()
    return _loaded
