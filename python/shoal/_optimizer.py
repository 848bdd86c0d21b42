"""Optimizer state as shoal tensors: moments, step counts, the numbers of groups and schedulers.

An optimizer makes its state in its first step. The library wants to know all tensors at the start,
so a *rehearsal* with zero gradients shows what will be there, and is undone. Until the first real
step the state is absent ("not started" travels with the numbers), so that the first step is the one
PyTorch would do.
"""
from __future__ import annotations

import copy
from typing import Any, Dict, List, Tuple

import torch

from ._job import Tensor
from ._library import ShoalError
from ._mirror import Mirror

_Path = Tuple[Any, ...]
_REALS = ("lr", "initial_lr", "weight_decay", "momentum")  # even when given as 1 or 0


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float)) or (torch.is_tensor(value) and value.dim() == 0)


def _leaves(value: Any, path: _Path = ()) -> List[_Path]:
    """Paths to all numbers inside nested dicts, lists and tuples, in a fixed order."""
    if _is_number(value):
        return [path]
    if isinstance(value, dict):
        items = sorted(value.items(), key=lambda item: str(item[0]))
    elif isinstance(value, (list, tuple)):
        items = list(enumerate(value))
    else:
        return []
    return [leaf for key, inner in items for leaf in _leaves(inner, (*path, key))]


def _get(value: Any, path: _Path) -> Any:
    for key in path:
        value = value[key]
    return value


def _put(value: Any, path: _Path, number: Any) -> Any:
    """`value` with the number at `path` replaced; tuples on the way are made anew."""
    if not path:
        return number
    key, inner = path[0], _put(value[path[0]], path[1:], number)
    if isinstance(value, tuple):
        return (*value[:key], inner, *value[key + 1:])
    value[key] = inner
    return value


class _Number:
    """A number as 64 bits: reals by their float64 bits, whole numbers as they are."""

    def __init__(self, sample: Any) -> None:
        self.tensor = sample.clone() if torch.is_tensor(sample) else None
        self.real = sample.is_floating_point() if torch.is_tensor(sample) else \
            isinstance(sample, float)
        self.kind = type(sample)

    def write(self, bits: torch.Tensor, index: int, value: Any) -> None:
        plain = value.item() if torch.is_tensor(value) else value
        if isinstance(plain, float) and not self.real:
            raise ShoalError(f"a number of the optimizer was whole and became {plain}; give it as "
                             "a float from the start")
        (bits.view(torch.float64) if self.real else bits)[index] = plain

    def read(self, bits: torch.Tensor, index: int) -> Any:
        plain = (bits.view(torch.float64) if self.real else bits)[index].item()
        if self.tensor is not None:
            return self.tensor.new_full((), plain)
        return self.kind(plain)


class OptimizerState:
    """Everything of one optimizer and its scheduler that decides later steps."""

    def __init__(self, prefix: str, optimizer: torch.optim.Optimizer, scheduler: Any,
                 names: Dict[torch.Tensor, str], stage: bool) -> None:
        self.optimizer, self.scheduler, self.prefix = optimizer, scheduler, prefix
        self.params = [p for group in optimizer.param_groups for p in group["params"]]
        self.names, self.stage = names, stage
        sample = self._rehearse()
        self.moments: Dict[Tuple[torch.Tensor, str], Mirror] = {}
        self.numbers: List[Tuple[torch.Tensor, str, _Number]] = []
        for param in self.params:
            for key, value in sorted(sample[param].items()):
                self._add(param, key, value)
        self.group_leaves = _leaves(self._groups())
        self.scheduler_leaves = _leaves(self._schedule())
        kinds = [_Number(float(value) if path[-1] in _REALS else value) for path, value in
                 ((path, _get(self._groups(), path)) for path in self.group_leaves)]
        kinds += [_Number(_get(self._schedule(), path)) for path in self.scheduler_leaves]
        self.plain_numbers = kinds
        count = 1 + len(self.numbers) + len(kinds)
        self.bits = torch.zeros(count, dtype=torch.int64)
        self.push()

    def _add(self, param: torch.Tensor, key: str, value: Any) -> None:
        name = f"{self.prefix}.{key}.{self.names[param]}"
        if _is_number(value):
            self.numbers.append((param, key, _Number(value)))
        elif torch.is_tensor(value):
            self.moments[param, key] = Mirror(name, torch.zeros_like(value), stage=self.stage)
        elif value is not None:
            raise ShoalError(f"{type(self.optimizer).__name__} keeps a {type(value).__name__} as "
                             f"\"{key}\" of {self.names[param]}, which shoal cannot carry; use "
                             "another optimizer, for example AdamW")

    def _rehearse(self) -> Dict[torch.Tensor, Dict[str, Any]]:
        """What state[param] will look like after a step; leaves everything as it was."""
        optimizer = self.optimizer
        if isinstance(optimizer, torch.optim.LBFGS):
            raise ShoalError("LBFGS evaluates the loss inside its step, which an elastic job cannot "
                             "do; use another optimizer, for example AdamW")
        weights = [param.detach().clone() for param in self.params]
        grads = [param.grad for param in self.params]
        state = copy.deepcopy({index: optimizer.state[param] for index, param
                               in enumerate(self.params) if param in optimizer.state})
        groups, random = copy.deepcopy(self._groups()), torch.get_rng_state()
        for param in self.params:
            param.grad = torch.zeros_like(param)
        type(optimizer).step(optimizer)  # not the wrapper that counts for a scheduler
        sample = {param: dict(optimizer.state[param]) for param in self.params}
        optimizer.state.clear()
        with torch.no_grad():
            for index, param in enumerate(self.params):
                param.copy_(weights[index])
                param.grad = grads[index]
                if index in state:
                    optimizer.state[param] = state[index]
        for group, kept in zip(optimizer.param_groups, groups):
            group.update(kept)
        torch.set_rng_state(random)
        return sample

    def _groups(self) -> List[Dict[str, Any]]:
        return [{key: value for key, value in group.items() if key != "params"}
                for group in self.optimizer.param_groups]

    def _schedule(self) -> Dict[str, Any]:
        return {} if self.scheduler is None else dict(self.scheduler.state_dict())

    def describe(self) -> str:
        """What, besides its state, decides the bits: goes into the identity."""
        groups = [(path, _get(self._groups(), path)) for path in self.group_leaves]
        return f"{type(self.optimizer).__name__} {groups} {type(self.scheduler).__name__}"

    def mirrors(self) -> List[Mirror]:
        return list(self.moments.values())

    def words(self) -> List[Tensor]:
        bits = self.bits.view(torch.float32).view(-1, 2)
        numbers = Tensor(f"{self.prefix}.numbers:int64", bits.data_ptr(), tuple(bits.shape),
                         self.bits)
        return [mirror.words() for mirror in self.moments.values()] + [numbers]

    def push(self) -> None:
        """The optimizer's state to the words that libshoal sees."""
        state = self.optimizer.state
        started = all(len(state[param]) > 0 for param in self.params if param in state) and \
            any(param in state for param in self.params)
        self.bits[0] = int(started)
        for (param, key), mirror in self.moments.items():
            if started:
                self._adopt(param, key, mirror)
            else:
                mirror.live.zero_()
            mirror.push()
        for index, (param, key, number) in enumerate(self.numbers, 1):
            number.write(self.bits, index, state[param][key] if started else 0)
        plain = [_get(self._groups(), path) for path in self.group_leaves]
        plain += [_get(self._schedule(), path) for path in self.scheduler_leaves]
        for index, (number, value) in enumerate(zip(self.plain_numbers, plain),
                                                1 + len(self.numbers)):
            number.write(self.bits, index, value)

    def _adopt(self, param: torch.Tensor, key: str, mirror: Mirror) -> None:
        """From now on the optimizer works on the tensor that the mirror knows."""
        state = self.optimizer.state[param]
        if state[key] is not mirror.live:
            mirror.live.copy_(state[key])
            state[key] = mirror.live

    def pull(self) -> None:
        """The words to the optimizer's state."""
        state = self.optimizer.state
        if not self.bits[0]:
            for param in self.params:
                state.pop(param, None)
        else:
            for (param, key), mirror in self.moments.items():
                mirror.pull()
                state[param][key] = mirror.live
            for index, (param, key, number) in enumerate(self.numbers, 1):
                state[param][key] = number.read(self.bits, index)
        plain = [number.read(self.bits, index) for index, number
                 in enumerate(self.plain_numbers, 1 + len(self.numbers))]
        self._pull_plain(plain[:len(self.group_leaves)], plain[len(self.group_leaves):])

    def _pull_plain(self, groups: List[Any], schedule: List[Any]) -> None:
        for path, value in zip(self.group_leaves, groups):
            _put(self.optimizer.param_groups, path, value)
        if self.scheduler is not None:
            state = self._schedule()
            for path, value in zip(self.scheduler_leaves, schedule):
                _put(state, path, value)
            self.scheduler.load_state_dict(state)
