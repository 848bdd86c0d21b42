"""An exact gradient mean for DistributedDataParallel: same bits for any number of processes.

    model = DistributedDataParallel(model)
    exact = shoal.ddp.ExactMean(model, slots=64, seed=1)
    for step in range(steps):
        for slot in exact.slots(step):          # this process's share of the global batch
            loss_of(model, batch_of(step, slot)).backward()
        optimizer.step()
        optimizer.zero_grad()

The global batch is `slots` micro-batches. Which process computes which, in what order, and how DDP
cuts its buckets does not change a bit of the mean, as long as computing a slot gives the same bits
everywhere (shoal.torch.deterministic). Without this hook a sum of floats depends on all of that.
Membership stays DDP's: a lost process still ends the run; shoal.torch has the elastic kind.

How: blocks of 256 elements of one parameter share a power of two as their unit, taken from the
largest element over all slots (all-reduce MAX). Each slot's element becomes a whole number of units
of at most 2^40, whole numbers add up exactly in any order (all-reduce SUM of int64), and one rounding
gives the mean. Error: below 2^-40 of the block's largest element, plus the rounding of the result.
NaN and infinities come out as IEEE arithmetic would have it. Costs 8 bytes an element on the wire
where DDP has 4, and one copy of the gradient for each further slot of the process.
"""
# No `from __future__ import annotations`: DDP looks at the annotations of its hooks.
import contextlib
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from ._job import random
from ._library import ShoalError
from .torch import seed_all

BLOCK = 256
AIM_BITS = 40
SLOTS_MAX = 4096  # 2^12 slots of 2^40 stay exact in a double, which has 53 bits
_NAN, _POSITIVE, _NEGATIVE = 1, 1 << 20, 1 << 40  # counts of each, in one 64-bit word


def _power(exponent: torch.Tensor) -> torch.Tensor:
    """2^exponent as float64, exactly, from its bits; pow() need not be exact."""
    return (exponent.to(torch.int64) + 1023 << 52).view(torch.float64)


class _Blocks:
    """Tensors laid into rows of BLOCK elements, each beginning a row of its own."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        self.counts = [tensor.numel() for tensor in tensors]
        self.starts, self.rows = [], 0
        for count in self.counts:
            self.starts.append(self.rows * BLOCK)
            self.rows += (count + BLOCK - 1) // BLOCK

    def pack(self, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
        packed = tensors[0].new_zeros(self.rows * BLOCK, dtype=torch.float32)
        for tensor, start, count in zip(tensors, self.starts, self.counts):
            packed[start:start + count] = tensor.reshape(-1)
        return packed.view(self.rows, BLOCK)

    def unpack(self, packed: torch.Tensor, into: Sequence[torch.Tensor]) -> None:
        flat = packed.view(-1)
        for tensor, start, count in zip(into, self.starts, self.counts):
            tensor.copy_(flat[start:start + count].view(tensor.shape))


def exact_mean(slots: Sequence[torch.Tensor], total: int, group: Any = None) -> torch.Tensor:
    """Mean over `total` slots of all processes; slots: those of this one, each [rows, BLOCK] float32.
    Every process calls it in the same order. NaN and Inf included."""
    finite = [torch.where(torch.isfinite(slot), slot, torch.zeros_like(slot)) for slot in slots]
    peak = torch.stack([slot.abs().amax(1) for slot in finite]).amax(0)
    special = torch.stack([(~torch.isfinite(slot)).any(1) for slot in slots]).any(0)
    bounds = torch.cat([peak, special.to(peak.dtype)])
    dist.all_reduce(bounds, op=dist.ReduceOp.MAX, group=group)
    peak, special = bounds.view(2, -1)
    exponent = torch.frexp(peak)[1].to(torch.int64)  # peak < 2^exponent; 0 when the block is zero
    unit = _power(AIM_BITS - exponent).unsqueeze(1)
    words = torch.zeros_like(finite[0], dtype=torch.int64)
    for slot in finite:
        words += (slot.double() * unit).round().to(torch.int64)
    counted = torch.cat([words.view(-1), words.new_tensor([len(slots)])])
    dist.all_reduce(counted, group=group)
    if int(counted[-1]) != total:
        raise ShoalError(f"the processes computed {int(counted[-1])} slots, {total} make the global "
                         "batch: give every slot to exactly one process")
    sums = counted[:-1].view_as(words).double() * _power(exponent - AIM_BITS).unsqueeze(1)
    mean = (sums / total).to(torch.float32)
    rows = special.nonzero().view(-1)
    if len(rows) > 0:
        _add_specials(mean, rows, slots, group)
    return mean


def _add_specials(mean: torch.Tensor, rows: torch.Tensor, slots: Sequence[torch.Tensor],
                  group: Any) -> None:
    """NaN and infinities of these rows; all processes know the same rows."""
    def codes(slot: torch.Tensor) -> torch.Tensor:
        part = slot[rows]
        return (torch.isnan(part).to(torch.int64) * _NAN
                + (part == float("inf")).to(torch.int64) * _POSITIVE
                + (part == float("-inf")).to(torch.int64) * _NEGATIVE)

    total = torch.stack([codes(slot) for slot in slots]).sum(0)
    dist.all_reduce(total, group=group)
    positive, negative = (total >> 20) % (1 << 20) > 0, total >= _NEGATIVE
    part = mean[rows]
    part[positive] = float("inf")
    part[negative] = float("-inf")
    part[(total % _POSITIVE > 0) | positive & negative] = float("nan")
    mean[rows] = part


class ExactMean:
    """The communication hook and the loop over this process's slots; see the module."""

    def __init__(self, model: DistributedDataParallel, slots: int, seed: Optional[int] = None) -> None:
        self.model, self.total, self.seed = model, slots, seed
        self.group = model.process_group
        self.rank, self.world = dist.get_rank(self.group), dist.get_world_size(self.group)
        if not self.world <= slots <= SLOTS_MAX:
            raise ShoalError(f"slots: {slots} for {self.world} processes; every process needs one, "
                             f"and at most {SLOTS_MAX} are possible")
        self._earlier: List[Dict[torch.Tensor, torch.Tensor]] = []  # gradients of this process's slots before its last
        model.register_comm_hook(None, self._hook)

    def slots(self, step: int, mine: Optional[Iterable[int]] = None) -> Iterator[int]:
        """The slots of this process, one after the other; run forward and backward for each. After
        the last every .grad holds the exact mean. mine: another split than rank, rank + world, ...
        With a seed, torch, random and numpy are seeded from (seed, step, slot) before each."""
        share = list(range(self.rank, self.total, self.world) if mine is None else mine)
        if not share:
            raise ShoalError(f"process {self.rank} has no slot in step {step}; DDP needs each "
                             "process to compute at least one")
        self._earlier = []
        self._forget()
        for position, slot in enumerate(share):
            last = position + 1 == len(share)
            if self.seed is not None:
                seed_all(random(self.seed, step, slot, 0))
            with contextlib.nullcontext() if last else self.model.no_sync():
                yield slot
            if not last:
                self._earlier.append({param: param.grad.detach().clone() for param
                                      in self.model.parameters() if param.grad is not None})
                self._forget()
        self._earlier = []

    def _forget(self) -> None:
        for param in self.model.parameters():
            param.grad = None

    def _hook(self, _: None, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        """Called by DDP with the gradients of this process's last slot."""
        params, gradients = bucket.parameters(), bucket.gradients()
        blocks = _Blocks(gradients)
        slots = [blocks.pack([earlier.get(param, torch.zeros_like(gradient)) for param, gradient
                              in zip(params, gradients)]) for earlier in self._earlier]
        slots.append(blocks.pack(gradients))
        blocks.unpack(exact_mean(slots, self.total, self.group), gradients)
        future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        future.set_result(bucket.buffer())
        return future
