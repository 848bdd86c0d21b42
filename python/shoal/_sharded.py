"""AdamW whose moments the library keeps: each worker holds and updates a share of them.

Every operation below is one rounding of one element (no fused multiply-add, no reduction), so the
bits do not depend on where a range begins or ends.
"""
from __future__ import annotations

import ctypes
import dataclasses
import math
from typing import Any, Callable, Optional, Tuple, Union

import torch

from ._job import Part

PROBES = (0, 1, 2, 5, 10, 100, 1000, 10**4, 10**5, 10**6)  # steps whose rates go into the identity


@dataclasses.dataclass(frozen=True)
class ShardedAdamW:
    """Give it to shoal.torch.join() in place of an optimizer.

    rate    the learning rate, or a function of the 0-based step: nothing but weights and moments is
            kept from step to step, so a scheduler must be a function of the step.
    clip    largest norm of the mean gradient; None: as it is.
    """
    rate: Union[float, Callable[[int], float]] = 1e-3
    betas: Tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-8
    decay: float = 0.01
    clip: Optional[float] = None

    moments = ("exp_avg", "exp_avg_sq")

    def rate_at(self, step: int) -> float:
        return float(self.rate(step)) if callable(self.rate) else float(self.rate)

    def describe(self) -> str:
        """What decides the bits: goes into the identity."""
        rates = [self.rate_at(step) for step in PROBES] if callable(self.rate) else self.rate
        return f"ShardedAdamW {rates} {self.betas} {self.epsilon} {self.decay} {self.clip}"

    def update(self, part: Part) -> None:
        weights, gradient = _tensor(part.weights), _tensor(part.gradient)
        first, second = (_tensor(part.moments[name]) for name in self.moments)
        rate, (beta1, beta2), step = self.rate_at(part.step), self.betas, part.step + 1
        if self.clip is not None and part.gradient_norm > self.clip:
            gradient = gradient * (self.clip / (part.gradient_norm + 1e-6))
        first.mul_(beta1)
        first.add_(gradient * (1 - beta1))
        second.mul_(beta2)
        second.add_((gradient * gradient).mul_(1 - beta2))
        below = second.sqrt().div_(math.sqrt(1 - beta2 ** step)).add_(self.epsilon)
        weights.mul_(1 - rate * self.decay)
        weights.sub_((first / below).mul_(rate / (1 - beta1 ** step)))


def _tensor(view: Any) -> torch.Tensor:
    """A view of the library's memory as a tensor that writes to it."""
    raw = (ctypes.c_char * memoryview(view).nbytes).from_buffer(view)
    return torch.frombuffer(raw, dtype=torch.float32)
