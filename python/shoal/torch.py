"""PyTorch training as an elastic job: same weights at the end, bit for bit, whoever computed what.

    shoal.torch.deterministic(seed=1)
    model, optimizer = ...                                    # as always
    with shoal.torch.join(model, optimizer, seed=1, slots=16, steps=100) as job:
        for step in job.steps():
            for slot in step:
                slot.backward(loss_of(model, batch_of(slot.samples)))
            step.commit()

See docs/python.md for what a script has to keep to, and for the limits.
"""
from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import os
import random as python_random
import re
import sys
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Set, Union

import torch

from . import _job
from ._job import JobEnded, Slot as _Slot, Step as _Step, random
from ._library import ShoalError
from ._mirror import Mirror, decode, host_like, settle
from ._optimizer import OptimizerState
from ._sharded import ShardedAdamW

__all__ = ["Job", "JobEnded", "ShardedAdamW", "ShoalError", "Slot", "Step", "decoded", "deterministic", "join",
           "seed_all"]

_NORMS = (torch.nn.modules.batchnorm._NormBase,)
_APPLY_SLOT = 0xffffffff  # a slot number that no slot has: for random numbers of the update itself


def seed_all(seed: int) -> None:
    """Seeds torch, Python's random and, where the program uses it, numpy."""
    torch.manual_seed(seed & (1 << 63) - 1)
    python_random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed & 0xffffffff)


def deterministic(seed: int, threads: int = 1) -> None:
    """Makes this process compute the same bits as every other one that calls it the same way.

    Call it first, before the model is made. `threads`: of torch, part of what decides the bits.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    seed_all(random(seed, 0, 0, 0))


def _hardware(on_gpu: bool) -> str:
    """What of this machine and build may change the bits of a kernel."""
    cpu = getattr(torch.backends, "cpu", None)
    capability = cpu.get_cpu_capability() if cpu is not None else \
        re.findall("CPU capability usage: (.*)", torch.__config__.show())
    gpu = torch.cuda.get_device_name() if on_gpu and torch.cuda.is_available() else ""
    return f"torch {torch.__version__} threads {torch.get_num_threads()} {capability} {gpu}"


class Slot(_Slot):
    """A micro-batch: compute its mean loss, then :meth:`backward`."""

    job: "Job"

    def backward(self, loss: torch.Tensor) -> None:
        """loss.backward(), once, and submit: `loss` is the mean over the samples of the slot.
        Gradients are on their way to the other workers while the rest is still being computed."""
        with self.job._leaving_early():
            loss.backward()
        self.submit(loss)

    def submit(self, loss: Union[torch.Tensor, float]) -> None:
        """For programs that called backward themselves: takes every parameter's .grad."""
        super().submit(float(loss.detach()) if torch.is_tensor(loss) else loss)


class Step(_Step):
    """An optimizer step. After its slots every parameter's .grad is the mean over all slots."""

    job: "Job"

    @property
    def gradient_norm(self) -> float:
        """After the slots: L2 norm of the mean gradient, the same bits whoever computed what."""
        if not self.job._statistics:
            return super().gradient_norm
        count = sum(mirror.live.numel() for mirror in self.job._params)  # without the statistics
        return float(self.job._flat[:count].double().norm())

    def commit(self, update: bool = True) -> None:
        """optimizer.step() and scheduler.step(), then on to the next step. With update=False the
        program has done both itself."""
        self.job._update = update
        super().commit()


class _Buffers:
    """Buffers that a forward pass changes: batch statistics. Each slot starts from the values of
    the step's start; what it adds is averaged over the slots like a gradient."""

    def __init__(self, model: torch.nn.Module, more: Iterable[str]) -> None:
        wanted, owned = set(more), set()
        for prefix, module in model.named_modules():
            if isinstance(module, _NORMS) and module.track_running_stats:
                owned |= {f"{prefix}.{name}".lstrip(".") for name, _ in module.named_buffers()}
        buffers = dict(model.named_buffers())
        unknown = wanted - set(buffers)
        if unknown:
            raise ShoalError(f"reduce_buffers: the model has no buffer {sorted(unknown)[0]}")
        self.reduced = {name: buffer for name, buffer in buffers.items()
                        if name in owned | wanted and buffer.dtype == torch.float32}
        self.counted = {name: buffer for name, buffer in buffers.items()
                        if name in owned | wanted and not buffer.is_floating_point()}
        self.others = {name: buffer for name, buffer in buffers.items()
                       if name not in self.reduced and name not in self.counted}
        wrong = sorted((owned | wanted) - set(self.reduced) - set(self.counted))
        if wrong:
            raise ShoalError(f"buffer {wrong[0]} is of {buffers[wrong[0]].dtype}; only float32 "
                             "buffers can be averaged over slots")
        self.before: Dict[str, torch.Tensor] = {}
        self.versions: Dict[str, int] = {}

    def remember(self) -> None:
        """The values every slot of the step starts from."""
        self.before = {name: buffer.clone() for name, buffer
                       in (*self.reduced.items(), *self.counted.items())}
        self.versions = {name: buffer._version for name, buffer in self.others.items()}

    def added(self) -> List[torch.Tensor]:
        """What this slot's forward pass added, and all buffers back as they were."""
        for name, buffer in self.others.items():
            if buffer._version != self.versions[name]:
                raise ShoalError(f"buffer {name} was changed by the forward pass, so the result "
                                 "would depend on who computed what; name it in reduce_buffers if "
                                 "the mean of its changes over the slots is what you want")
        added = [buffer - self.before[name] for name, buffer in self.reduced.items()]
        self.restore()
        return added

    def restore(self) -> None:
        for name, value in self.before.items():
            (self.reduced if name in self.reduced else self.counted)[name].copy_(value)

    def apply(self, means: List[torch.Tensor]) -> None:
        for buffer, mean in zip(self.reduced.values(), means):
            buffer.add_(mean)
        for buffer in self.counted.values():
            buffer.add_(1)  # one batch: that of the step


class Job(_job.Job):
    """Membership of a model and its optimizer in an elastic job; see :func:`join`."""

    slot_class, step_class = Slot, Step

    def __init__(self, model: torch.nn.Module,
                 optimizer: Union[torch.optim.Optimizer, List[torch.optim.Optimizer], ShardedAdamW],
                 *,
                 seed: int = 0, scheduler: Any = None, state: Optional[Mapping[str, Any]] = None,
                 reduce_buffers: Iterable[str] = (), identity: Any = None, stage: bool = False,
                 early: bool = True, **options: Any) -> None:
        self._sharded = optimizer if isinstance(optimizer, ShardedAdamW) else None
        if isinstance(optimizer, ShardedAdamW):
            options.update(moments=optimizer.moments, update=optimizer.update)
            optimizer = []
        optimizers: List[torch.optim.Optimizer] = \
            list(optimizer) if isinstance(optimizer, (list, tuple)) else [optimizer]
        schedulers = scheduler if isinstance(scheduler, (list, tuple)) else [scheduler]
        self.model, self._update = model, True
        names: Dict[torch.Tensor, str] = {param: name for name, param in model.named_parameters()}
        trained = self._trained(optimizers, names) if self._sharded is None else \
            [param for param in names if param.requires_grad]
        self._buffers = _Buffers(model, reduce_buffers)
        self._params = [Mirror(names[param], param, stage=stage) for param in trained]
        # Never shared: forward passes write to them, while the library may be saving.
        self._statistics = [Mirror(name, buffer, stage=True)
                            for name, buffer in self._buffers.reduced.items()]
        if self._sharded is None:
            others = {**self._not_trained(names, trained), **(state or {})}
        else:
            self._check_sharded(scheduler, state, trained)
            others = {}  # as the constructor made it, on every worker
        self._others = [Mirror(name, tensor, stage=stage) for name, tensor in others.items()]
        schedulers = list(schedulers) + [None] * (len(optimizers) - len(schedulers))
        self._optimizers = [
            OptimizerState("optimizer" if len(optimizers) == 1 else f"optimizer{index}", one,
                           schedulers[index], names, stage)
            for index, one in enumerate(optimizers)]
        self._count = sum(mirror.live.numel() for mirror in self._reduced())
        self._on_gpu = self._is_on_gpu()
        self._flat = host_like((self._count,), self._on_gpu and torch.cuda.is_available())
        self._position: Optional[int] = None  # the step that the live tensors are at
        settle(self._mirrors())
        super().__init__(
            [mirror.words() for mirror in self._reduced()],
            [mirror.words() for mirror in self._others] +
            [words for one in self._optimizers for words in one.words()],
            seed=seed, identity=self._identity(seed, identity), **options)
        self._early = False  # within backward()
        self._gone: Set[str] = set()  # parameters that have left
        if early and not self._on_gpu and self._library.has("shoal_ready"):
            self._watch()

    def _watch(self) -> None:
        """Hands each gradient over as soon as the backward pass has ended it."""
        at = 0
        for mirror in self._params:
            count = mirror.live.numel()
            if count > 0 and hasattr(mirror.live, "register_post_accumulate_grad_hook"):
                mirror.live.register_post_accumulate_grad_hook(
                    functools.partial(self._leave, mirror.name, at, count))
            at += count

    @contextlib.contextmanager
    def _leaving_early(self) -> Iterator[None]:
        self._early = True
        try:
            yield
        finally:
            self._early = False

    def _leave(self, name: str, at: int, count: int, param: torch.Tensor) -> None:
        if not self._early or param.grad is None or param.grad.layout != torch.strided:
            return
        if name in self._gone:
            raise ShoalError(f"the gradient of {name} came in two pieces (reentrant activation "
                             "checkpointing?); use shoal.torch.join(early=False)")
        self._gone.add(name)
        self._gradient_tensor()[at:at + count].view(param.shape).copy_(param.grad)
        param.grad = None
        self._library.call.shoal_ready(self._alive(), at, count)

    def _check_sharded(self, scheduler: Any, state: Any, trained: List[torch.Tensor]) -> None:
        if scheduler is not None or state:
            raise ShoalError("with ShardedAdamW nothing but weights and moments is kept: give "
                             "rate=function of the step instead of a scheduler, and no state")
        if self._buffers.reduced or self._buffers.counted:
            name = sorted([*self._buffers.reduced, *self._buffers.counted])[0]
            raise ShoalError(f"buffer {name} changes in training, which ShardedAdamW does not "
                             "carry; use a torch optimizer, or normalisation without statistics")
        for param in trained:
            if param.dtype != torch.float32:
                raise ShoalError(f"ShardedAdamW updates float32 parameters; one is {param.dtype}")

    @staticmethod
    def _trained(optimizers: List[torch.optim.Optimizer],
                 names: Dict[torch.Tensor, str]) -> List[torch.Tensor]:
        """Parameters that get gradients, in the order of the model."""
        chosen = {param for one in optimizers for group in one.param_groups
                  for param in group["params"]}
        for param in chosen:
            if param not in names:
                raise ShoalError(f"the optimizer has a parameter of shape {tuple(param.shape)} that "
                                 "is not in the model; give the model that owns it")
        for param in chosen:
            if not param.requires_grad:
                raise ShoalError(f"parameter {names[param]} is in the optimizer but is frozen; "
                                 "leave it out of the optimizer")
            if param.dtype not in (torch.float32, torch.bfloat16, torch.float16):
                raise ShoalError(f"parameter {names[param]} is of {param.dtype}; gradients are "
                                 "reduced as float32: use float32, bfloat16 or float16")
        return [param for param in names if param in chosen]

    def _not_trained(self, names: Dict[torch.Tensor, str],
                     trained: List[torch.Tensor]) -> Dict[str, torch.Tensor]:
        """What else of the model is state: frozen parameters, and buffers that are saved."""
        chosen, persistent = set(trained), self.model.state_dict(keep_vars=True)
        buffers = {**self._buffers.counted, **self._buffers.others}
        return {**{name: param for param, name in names.items() if param not in chosen},
                **{name: buffer for name, buffer in buffers.items() if name in persistent}}

    def _is_on_gpu(self) -> bool:
        return any(mirror.live.is_cuda for mirror in self._reduced())

    def _reduced(self) -> List[Mirror]:
        return self._params + self._statistics

    def _mirrors(self) -> List[Mirror]:
        return self._reduced() + self._others + \
            [mirror for one in self._optimizers for mirror in one.mirrors()]

    def _identity(self, seed: int, more: Any) -> int:
        """64 bits over what decides the results and is not in the tensors' names and shapes."""
        text = "\n".join([str(seed), _hardware(self._on_gpu), repr(self.model), repr(more),
                          *(one.describe() for one in self._optimizers),
                          "" if self._sharded is None else self._sharded.describe(),
                          *(f"{mirror.name} {mirror.live.dtype}" for mirror in self._mirrors())])
        text = re.sub(r" at 0x[0-9a-f]+", "", text)  # addresses in the repr of functions
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") or 1

    # Between live tensors and the library's words.

    def _push(self) -> None:
        for mirror in self._reduced() + self._others:
            mirror.push()
        for one in self._optimizers:
            one.push()
        settle(self._mirrors())

    def _pull(self) -> None:
        for mirror in self._reduced() + self._others:
            mirror.pull()
        for one in self._optimizers:
            one.pull()
        settle(self._mirrors())

    def _gradient_tensor(self) -> torch.Tensor:
        """The library's gradient as a flat tensor."""
        return _as_tensor(self._gradient_address, self._count)

    def _work_came(self) -> None:
        if self._position != self._step:  # the first work, or brought up to date in between
            self._pull()
            self._buffers.remember()
            self._position = self._step

    def _look_at_end(self) -> str:
        reason = super()._look_at_end()
        if self._sharded is not None:
            self._pull()  # the library has changed the params since the last work
        return reason

    # One slot.

    def _slot_begins(self, slot: _job.Slot) -> None:
        seed_all(random(self.seed, slot.step, slot.index, 0))
        self._gone.clear()
        for mirror in self._params:
            mirror.live.grad = None

    def _slot_ends(self, slot: _job.Slot) -> None:
        """Every .grad and what the buffers gained, into the library's gradient."""
        target = self._flat if self._on_gpu else self._gradient_tensor()
        if self._on_gpu:
            target.zero_()
        at = 0
        with torch.no_grad():
            pieces = [mirror.live.grad for mirror in self._params] + self._buffers.added()
            for mirror, piece in zip(self._reduced(), pieces):
                count = mirror.live.numel()
                if piece is not None:
                    if piece.layout != torch.strided:
                        raise ShoalError(f"the gradient of {mirror.name} is sparse; use "
                                         "Embedding(sparse=False)")
                    target[at:at + count].view(piece.shape).copy_(piece, non_blocking=True)
                at += count
        if self._on_gpu:
            settle(self._params)
            self._gradient_tensor().copy_(target)

    # The mean, and the update.

    def _mean_arrived(self, step: _job.Step) -> None:
        self._flat.copy_(self._gradient_tensor())
        at = 0
        for mirror in self._params:
            live, count = mirror.live, mirror.live.numel()
            mean = self._flat[at:at + count].view(live.shape)
            live.grad = mean.to(live.device, live.dtype, non_blocking=True)
            at += count
        settle(self._params)

    def _commits(self, step: _job.Step) -> None:
        seed_all(random(self.seed, step.index, _APPLY_SLOT, 0))
        if self._update:
            for one in self._optimizers:
                one.optimizer.step()
                if one.scheduler is not None:
                    one.scheduler.step()
        at, means = sum(mirror.live.numel() for mirror in self._params), []
        with torch.no_grad():
            for mirror in self._statistics:
                count = mirror.live.numel()
                means.append(self._flat[at:at + count].view(mirror.live.shape)
                             .to(mirror.live.device))
                at += count
            self._buffers.restore()
            self._buffers.apply(means)
        for mirror in self._params:
            mirror.live.grad = None
        self._push()
        self._buffers.remember()
        self._position = step.index + 1


def decoded(tensors: Mapping[str, torch.Tensor]) -> Dict[str, torch.Tensor]:
    """Tensors of a checkpoint (as of ``shoal ckpt merge --with-state``) with their own names and
    dtypes: ``steps:int64`` becomes ``steps``. For ``model.load_state_dict(..., strict=False)``."""
    result = {}
    for key, words in tensors.items():
        name, _, dtype = key.rpartition(":")
        if name and isinstance(getattr(torch, dtype, None), torch.dtype):
            result[name] = decode(words, getattr(torch, dtype))
        else:
            result[key] = words
    return result


def _as_tensor(address: int, count: int) -> torch.Tensor:
    if count == 0:
        return torch.empty(0)
    return torch.frombuffer((ctypes.c_float * count).from_address(address), dtype=torch.float32)


def join(model: torch.nn.Module,
         optimizer: Union[torch.optim.Optimizer, List[torch.optim.Optimizer], ShardedAdamW], *,
         seed: int = 0, slots: int = 0, steps: int = 0, samples_per_slot: int = 1, scheduler: Any = None,
         state: Optional[Mapping[str, torch.Tensor]] = None, reduce_buffers: Iterable[str] = (),
         identity: Any = None, stage: bool = False, early: bool = True, **options: Any) -> Job:
    """Joins the elastic job of this process with a model and its optimizer (or a list of them).

    optimizer       ShardedAdamW: the library keeps the moments, each worker a share of them.
    seed            decides all random numbers of slots (dropout): torch, random and numpy are
                    seeded from (seed, step, slot) before each.
    slots, steps    0: what the job says (SHOAL_SLOTS, SHOAL_STEPS).
    scheduler       a learning-rate scheduler; its step() follows the optimizer's. Its numbers are
                    state of the job, as are those of the optimizer.
    state           more tensors that belong to the training state: name -> tensor.
    reduce_buffers  names of float32 buffers whose changes in the forward pass are averaged over
                    slots; those of batch normalisation are known.
    identity        anything with a stable repr that else decides the bits: the data's hash, ...
    stage           copy tensors through host memory even where they could be shared.
    early           Slot.backward() hands gradients over while it goes on (PyTorch 2.1, CPU).
    options         as of shoal.join().
    """
    return Job(model, optimizer, seed=seed, slots=slots, steps=steps,
               samples_per_slot=samples_per_slot, scheduler=scheduler, state=state,
               reduce_buffers=reduce_buffers, identity=identity, stage=stage, early=early, **options)
