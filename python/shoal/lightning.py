"""PyTorch Lightning as an elastic job: a callback and the loader it feeds.

    elastic = shoal.lightning.Elastic(batch_of, seed=1, slots=16, steps=100, samples_per_slot=8)
    trainer = Trainer(max_epochs=1, callbacks=[elastic])
    trainer.fit(module, elastic.loader)

`batch_of(samples)` makes the batch of a slot from positions in the endless stream of samples. For
Lightning every slot is a batch; its optimizer step only submits the slot's gradient, and the update
follows once the mean over all slots of all workers is there. So progress bars count slots. Learning
rate schedulers step once a step; clip the mean with clip=, not with Trainer(gradient_clip_val).
"""
from __future__ import annotations

from typing import Any, Callable, Iterator, List, Optional

import torch

from . import torch as shoal_torch
from ._job import JobEnded, Slot
from ._library import ShoalError

try:
    from lightning.pytorch import Callback
except ImportError:
    from pytorch_lightning import Callback

__all__ = ["Elastic"]


class _Loader:
    """What Lightning iterates. It has a length, else Lightning would fetch a batch ahead of the
    submission of the one before."""

    def __init__(self, elastic: "Elastic") -> None:
        self.elastic = elastic

    def __len__(self) -> int:
        return 1 << 40

    def __iter__(self) -> Iterator[Any]:
        return self.elastic._batches()


class Elastic(Callback):
    """batch_of: samples -> batch; clip: largest norm of the mean gradient; the rest as of
    shoal.torch.join()."""

    def __init__(self, batch_of: Callable[[List[int]], Any], *, clip: Optional[float] = None,
                 **options: Any) -> None:
        self.batch_of, self.clip, self.options = batch_of, clip, options
        self.loader = _Loader(self)
        self.job: shoal_torch.Job
        self._slot: Slot

    def on_train_start(self, trainer: Any, module: Any) -> None:
        if trainer.gradient_clip_val:
            raise ShoalError("Trainer(gradient_clip_val) would clip each slot by itself; use "
                             "Elastic(clip=...), which clips the mean")
        if trainer.accumulate_grad_batches != 1 or trainer.world_size != 1:
            raise ShoalError("an elastic job brings its own accumulation and processes: leave "
                             "accumulate_grad_batches and devices of the Trainer at 1")
        schedulers = [config.scheduler for config in trainer.lr_scheduler_configs]
        trainer.strategy.lr_scheduler_configs = []  # they step with the job's steps, not per slot
        optimizers = list(trainer.optimizers)
        ordered = [next((s for s in schedulers if s.optimizer is one), None) for one in optimizers]
        self.job = shoal_torch.join(module, optimizers, scheduler=ordered, **self.options)
        for optimizer in optimizers:
            self._intercept(optimizer)

    def _intercept(self, optimizer: torch.optim.Optimizer) -> None:
        """Lightning's step, which brings the closure that computes, submits; ours updates."""
        update = optimizer.step

        def step(closure: Optional[Callable[[], Any]] = None) -> Any:
            if closure is None:
                return update()
            loss = closure()
            self._slot.submit(float("nan") if loss is None else loss)
            return loss

        optimizer.step = step  # type: ignore[method-assign]

    def _batches(self) -> Iterator[Any]:
        try:
            for step in self.job.steps():
                for self._slot in step:
                    yield self.batch_of(self._slot.samples)
                if self.clip is not None:
                    torch.nn.utils.clip_grad_norm_(self.job.model.parameters(), self.clip)
                step.commit()
        except JobEnded:
            return  # left as told

    def on_train_end(self, trainer: Any, module: Any) -> None:
        self.job.close()
