"""The job as a Python program sees it: steps, slots, and tensors in any float32 buffer.

Nothing here needs more than the standard library; numpy arrays, ``array.array('f')`` and ctypes
arrays are all buffers. ``shoal.torch`` builds on the same classes.
"""
from __future__ import annotations

import contextlib
import ctypes
import sys
from types import TracebackType
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Type

from . import _frames
from ._library import FIELDS, Record, ShoalError, library

COMPUTE, APPLY = 1, 2
RUNNING, DONE, LEFT, FAILED = range(4)
PHASE_COMPUTE, PHASE_DATA = range(2)
DIMS_MAX = 4
WORDS = {  # options that may be given as a word
    "checkpoint_every": {"never": 0xffffffff, "auto": 0xfffffffe},
    "on_nan": {"continue": 1, "skip": 2, "stop": 3},
}


class JobEnded(Exception):
    """The job ended in the middle of a step: this worker left as told, or failed. The ``with``
    block of the job swallows it, so a program rarely sees it."""


class Tensor(NamedTuple):
    """What libshoal is told about one tensor. ``owner`` keeps the memory alive."""
    name: str
    address: int
    shape: Tuple[int, ...]
    owner: Any

    @staticmethod
    def of(name: str, buffer: Any) -> "Tensor":
        """From anything with the buffer protocol: float32, writable, C-contiguous."""
        try:
            view = memoryview(buffer)
        except TypeError:
            raise ShoalError(f"tensor {name}: {type(buffer).__name__} is no buffer; give a numpy "
                             "array, array.array('f') or a ctypes array of floats") from None
        if view.format.lstrip("<=@") != "f" or view.itemsize != 4:
            raise ShoalError(f"tensor {name}: format {view.format!r} is not float32")
        if view.readonly or not view.c_contiguous:
            raise ShoalError(f"tensor {name}: must be writable and contiguous")
        address = 0
        if view.nbytes > 0:
            address = ctypes.addressof(ctypes.c_char.from_buffer(view.cast("B") if view.ndim
                                                                 else buffer))
        return Tensor(name, address, tuple(view.shape or ()), buffer)

    @property
    def elements(self) -> int:
        return _product(self.shape)


def _product(numbers: Sequence[int]) -> int:
    result = 1
    for number in numbers:
        result *= number
    return result


def _fold(shape: Sequence[int]) -> Tuple[int, ...]:
    """At most DIMS_MAX dimensions: those beyond are folded into the last."""
    if len(shape) <= DIMS_MAX:
        return tuple(shape)
    return (*shape[:DIMS_MAX - 1], _product(shape[DIMS_MAX - 1:]))


def _tensor_records(tensors: Sequence[Tensor]) -> Record:
    record = Record(library(), "shoal_tensor", len(tensors))
    for index, tensor in enumerate(tensors):
        shape = _fold(tensor.shape)
        record.set(index, name=tensor.name.encode(), data=tensor.address, shape=shape,
                   dims=len(shape))
    return record


def _number_of(option: str, value: Any) -> Any:
    """The value of an option, its word replaced by the number that stands for it."""
    if not isinstance(value, str) or option not in WORDS:
        return value
    if value not in WORDS[option]:
        number = "a number of steps or " if option == "checkpoint_every" else ""
        raise ShoalError(f'{option}: "{value}"; give {number}one of '
                         f'{", ".join(sorted(WORDS[option]))}')
    return WORDS[option][value]


class Slot:
    """One micro-batch to compute: fill ``gradient`` and call :meth:`submit`."""

    def __init__(self, job: "Job", step: int, index: int) -> None:
        self.job, self.step, self.index, self.submitted = job, step, index, False

    @property
    def samples(self) -> List[int]:
        """Positions of this slot's samples in the endless stream of samples."""
        first = self.job.sample(self.step, self.index, 0)
        return list(range(first, first + self.job.samples_per_slot))

    @property
    def gradient(self) -> Dict[str, Any]:
        """One float32 view per parameter, zeros to write the slot's gradient into."""
        return self.job._gradient_views()

    def random(self, counter: int) -> int:
        """64 random bits, the same for (seed, step, slot, counter) on every machine."""
        return random(self.job.seed, self.step, self.index, counter)

    @contextlib.contextmanager
    def loading(self) -> Iterator[None]:
        """Around waiting for data: ``with slot.loading(): batch = next(batches)``. Optional; when
        the job stalls, ``shoal why`` then says that this worker waits for its data."""
        self.job._phase(PHASE_DATA)
        try:
            yield
        finally:
            self.job._phase(PHASE_COMPUTE)

    def submit(self, loss: float) -> None:
        """The gradient of this slot is complete; ``loss`` is its mean loss."""
        if self.submitted:
            raise ShoalError(f"slot {self.index} of step {self.step} was submitted twice")
        self.job._slot_ends(self)
        self.job._submit(float(loss))
        self.submitted = True


class Part(NamedTuple):
    """A range of one parameter that this worker updates, when the library keeps the moments: new
    values go in place into ``weights`` and ``moments``. What comes out must depend on element, step
    and settings alone, not on where the range begins or ends."""
    step: int
    name: str
    first: int  # index of the range's first element in the flat parameter
    weights: Any
    gradient: Any  # the mean, read only
    moments: Dict[str, Any]
    gradient_norm: float


class Step:
    """One optimizer step. Iterate its slots, then look at the mean and :meth:`commit`."""

    def __init__(self, job: "Job") -> None:
        self.job, self.loss, self.committed = job, float("nan"), False
        self._began: Optional[int] = None  # with moments: the step, which the next work may end

    @property
    def index(self) -> int:
        """0-based. May grow while the slots are iterated: a worker that fell behind is brought
        up to date in between."""
        return self.job._step if self._began is None else self._began

    def __iter__(self) -> Iterator[Slot]:
        return self.slots()

    def slots(self) -> Iterator[Slot]:
        """The slots this worker has to compute: some, all or none. Ends when the mean of all
        workers' slots is there; with moments kept by the library, when this worker's part of the
        update is done."""
        job = self.job
        if job.moments:
            yield from self._slots_and_parts()
            return
        while job._pending() == COMPUTE:
            yield from self._one_slot()
        if job._pending() is None:
            raise JobEnded()
        self.loss = job._loss
        job._mean_arrived(self)

    def _one_slot(self) -> Iterator[Slot]:
        slot = self.job.slot_class(self.job, self.job._step, self.job._slot)
        self.job._slot_begins(slot)
        yield slot
        if not slot.submitted:
            raise ShoalError(f"slot {slot.index} of step {slot.step} was not submitted: call "
                             "slot.submit(loss), or slot.backward(loss) with torch")

    def _slots_and_parts(self) -> Iterator[Slot]:
        """Slots, then this worker's ranges of the update. A loss in between brings more slots; a
        worker without ranges sees the next step begin, or the end."""
        job, self._began = self.job, self.job._step
        while (kind := job._pending()) is not None and job._step == self._began:
            if kind == COMPUTE:
                yield from self._one_slot()
                continue
            self.loss, last = job._loss, bool(job._cells["last"].value)
            job._update_part(job._part())
            job._consume()
            if last:
                return
        if job._pending() is None and not job.done:
            raise JobEnded()

    @property
    def gradient(self) -> Dict[str, Any]:
        """After the slots: the exact mean over all slots, one read-only view per parameter."""
        return self.job._gradient_views()

    @property
    def gradient_norm(self) -> float:
        """After the slots: L2 norm of the mean gradient, the same bits whoever computed what."""
        cell = self.job._cells.get("gradient_norm")
        if cell is None:
            raise ShoalError(f"{self.job._library.path} (version {self.job._library.version}) has "
                             "no gradient_norm; use a newer library")
        return float(cell.value)

    def commit(self) -> None:
        """The weights have been updated from ``gradient``; go on to the next step."""
        if self.committed:
            raise ShoalError(f"step {self.index} was committed twice")
        if self.job.moments and self._began is not None:
            self.committed = True  # the ranges have been updated ...
            self.job._pending()  # ... and with the next work the params hold everybody's
            return
        if self.job._pending() != APPLY:
            raise ShoalError(f"step {self.index} was committed before its slots were iterated: use "
                             "for slot in step: ...")
        self.job._commits(self)
        self.committed = True
        self.job._consume()


class Job:
    """Membership in an elastic job. Use it as a context manager; see :func:`join`."""

    slot_class: Type[Slot] = Slot
    step_class: Type[Step] = Step

    def __init__(self, params: Sequence[Tensor], state: Sequence[Tensor], *, seed: int = 0,
                 samples_per_slot: int = 1, moments: Sequence[str] = (),
                 update: Optional[Callable[[Part], None]] = None, **options: Any) -> None:
        self._library = library()
        self.moments, self._update_part = list(moments), update or _no_update
        if bool(moments) != (update is not None):
            raise ShoalError("moments and update go together: names of the moments that the library "
                             "keeps, and the function that updates a Part")
        self.seed, self.samples_per_slot = seed, samples_per_slot
        self.params, self.state = list(params), list(state)
        self.end = RUNNING
        self._handle: Optional[int] = None
        self._kept = (_tensor_records(params), _tensor_records(state))
        record = Record(self._library, "shoal_options")
        directory = options.pop("checkpoint_dir", None)
        options = {name: _number_of(name, value) for name, value in options.items()}
        names = (ctypes.c_char_p * len(self.moments))(*(name.encode() for name in self.moments))
        if self.moments:
            self._kept_names = names
            record.set(moment_count=len(names), moment_names=ctypes.addressof(names))
        record.set(params=self._kept[0].address(), param_count=len(self.params),
                   state=self._kept[1].address(), state_count=len(self.state),
                   samples_per_slot=samples_per_slot,
                   checkpoint_dir=None if directory is None else str(directory).encode(), **options)
        self._record = record
        error = ctypes.create_string_buffer(1024)
        sys.stdout.flush()  # the library writes through C's buffer
        self._handle = self._library.call.shoal_join(record.address(), error, len(error))
        if not self._handle:
            raise ShoalError(error.value.decode(errors="replace"))
        _frames.offer()
        self._work = Record(self._library, "shoal_work")
        self._cells = {name: self._work.cell(name) for name in FIELDS["shoal_work"]
                       if name in self._library.rows["shoal_work"]}
        self._has_work = False
        self._views: Tuple[int, Dict[str, Any]] = (0, {})

    # What the program calls.

    def steps(self) -> Iterator[Step]:
        """The steps still to do, one after the other, until all are done or this worker leaves."""
        while self._pending() is not None:
            step = self.step_class(self)
            yield step
            if not step.committed:
                raise ShoalError(f"step {step.index} was not committed: call step.commit() after "
                                 "its slots")

    def sample(self, step: int, slot: int, i: int) -> int:
        """Position in the stream of samples of sample ``i`` of (step, slot)."""
        return int(self._library.call.shoal_sample(self._alive(), step, slot, i))

    @property
    def done(self) -> bool:
        """All steps are done, the weights are final."""
        return self.end == DONE

    @property
    def left(self) -> bool:
        """This worker was told to leave; others go on."""
        return self.end == LEFT

    def close(self) -> None:
        """Leaves the job and frees what it holds; raises the sentence of a failure."""
        if self._handle is None:
            return
        reason = self._look_at_end()
        handle, self._handle = self._handle, None
        self._views = (0, {})
        sys.stdout.flush()
        status = self._library.call.shoal_close(handle)
        if self.end == FAILED or (status != 0 and self.end in (DONE, LEFT)):
            raise ShoalError(reason or "the job failed; its last lines on stderr tell why")

    def __enter__(self) -> "Job":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> bool:
        ended = isinstance(error, JobEnded)
        try:
            self.close()
        except ShoalError:
            if kind is None or ended:
                raise  # else the program's own exception says more
        return ended

    # What steps and slots call; shoal.torch overrides the hooks.

    def _slot_begins(self, slot: Slot) -> None:
        """Hook: work for a slot is about to be handed out."""

    def _slot_ends(self, slot: Slot) -> None:
        """Hook: the program submits a slot."""

    def _mean_arrived(self, step: Step) -> None:
        """Hook: the gradient holds the mean."""

    def _commits(self, step: Step) -> None:
        """Hook: the program commits a step."""

    def _work_came(self) -> None:
        """Hook: new work, and the library may have replaced weights and state before it."""

    def _alive(self) -> int:
        if self._handle is None:
            raise ShoalError("the job is closed")
        return self._handle

    def _pending(self) -> Optional[int]:
        """Kind of the work in hand, asking for the next when there is none. None: it is over."""
        if not self._has_work:
            if self.end != RUNNING:
                return None
            if not self._library.call.shoal_next(self._alive(), self._work.address()):
                self._look_at_end()
                return None
            self._has_work = True
            self._work_came()
        return int(self._cells["kind"].value)

    def _consume(self) -> None:
        self._has_work = False

    def _submit(self, loss: float) -> None:
        self._library.call.shoal_submit(self._alive(), loss)
        self._consume()

    def _phase(self, phase: int) -> None:
        if self._library.has("shoal_phase"):
            self._library.call.shoal_phase(self._alive(), phase)

    def _look_at_end(self) -> str:
        reason = ctypes.c_char_p()
        self.end = self._library.call.shoal_ended(self._alive(), ctypes.byref(reason))
        return (reason.value or b"").decode(errors="replace")

    @property
    def _step(self) -> int:
        return int(self._cells["step"].value)

    @property
    def _slot(self) -> int:
        return int(self._cells["slot"].value)

    @property
    def _loss(self) -> float:
        return float(self._cells["loss"].value)

    @property
    def _gradient_address(self) -> int:
        return int(self._cells["gradient"].value)

    def _part(self) -> Part:
        cells, tensor = self._cells, self.params[self._cells["tensor"].value]
        shape = (int(cells["count"].value),)
        return Part(self._step, tensor.name, int(cells["first"].value),
                    _float_view(cells["weights"].value, shape),
                    _float_view(self._gradient_address, shape),
                    {name: _float_view(cells["moment"][index], shape)
                     for index, name in enumerate(self.moments)},
                    float(cells["gradient_norm"].value))

    def _gradient_views(self) -> Dict[str, Any]:
        address = self._gradient_address
        if self._views[0] != address:
            views, offset = {}, 0
            for tensor in self.params:
                views[tensor.name] = _float_view(address + 4 * offset, tensor.shape)
                offset += tensor.elements
            self._views = (address, views)
        return self._views[1]


def _no_update(part: Part) -> None:
    raise AssertionError("no moments, so no parts")


def _float_view(address: int, shape: Tuple[int, ...]) -> Any:
    """numpy array where the program uses numpy, else memoryview, over memory of the library."""
    count = _product(shape)
    raw = (ctypes.c_float * count).from_address(address)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        return numpy.frombuffer(raw, dtype=numpy.float32).reshape(shape)
    flat = memoryview(raw).cast("B").cast("f") if count else memoryview(raw)
    return flat.cast("B").cast("f", shape) if len(shape) > 1 and count else flat


def join(params: Mapping[str, Any], state: Optional[Mapping[str, Any]] = None, *, slots: int = 0,
         steps: int = 0, samples_per_slot: int = 1, seed: int = 0, **options: Any) -> Job:
    """Joins the elastic job of this process (or trains alone without an agent).

    params    name -> float32 buffer; these get gradients. They are updated by the program.
    state     name -> float32 buffer; optimizer moments and the like: sent to joiners, saved.
    slots     micro-batches per step, fixed for the life of the job; 0: SHOAL_SLOTS.
    steps     how many optimizer steps; 0: SHOAL_STEPS.
    seed      for Slot.random().
    moments   names of moments that the library keeps instead of state: one array of the shape of
              the params for each, sharded over the workers and mirrored. Then update(part) is called
              for the ranges that this worker updates, and the params change by themselves.
    options   the other fields of struct shoal_options: checkpoint_dir, checkpoint_every
              (a number of steps, "auto" or "never"), on_nan (what happens when the mean
              gradient holds NaN or Inf: "continue"; "skip": the step counts, nothing changes, and
              the loop goes on with slots of the next one; "stop": ShoalError),
              tokens_per_sample, identity (a 64-bit hash of what else decides the bits), ...

    Example::

        with shoal.join({"w": w}, {"momentum": m}, slots=8, steps=100) as job:
            for step in job.steps():
                for slot in step:
                    loss = compute(slot.samples, slot.gradient["w"])
                    slot.submit(loss)
                update(w, m, step.gradient["w"])
                step.commit()
    """
    return Job([Tensor.of(name, buffer) for name, buffer in params.items()],
               [Tensor.of(name, buffer) for name, buffer in (state or {}).items()],
               slots=slots, steps=steps, samples_per_slot=samples_per_slot, seed=seed, **options)


def random(seed: int, step: int, slot: int, counter: int) -> int:
    """Counter-based random bits: the same for the same arguments on every machine."""
    mask = (1 << 64) - 1
    return int(library().call.shoal_random(seed & mask, step, slot, counter & mask))
