"""A torch tensor as libshoal sees it: float32 words on the CPU.

libshoal knows float32 alone, and moves and stores state as bytes, never as numbers. So every dtype
has a form that gives its exact bits back:

float32             as it is; contiguous ones on the CPU are shared, not copied
float16, bfloat16   widened to float32, which is exact both ways
8, 4 byte kinds     their bits, in 2 or 1 words an element; the name says so: ``steps:int64``
bool, 8, 16 bit     as int32, then its bits: ``mask:bool``

A tensor that is not shared is *staged*: ``push`` copies it to its host words (pinned memory when it
lives on a GPU), ``pull`` copies them back.
"""
from __future__ import annotations

from typing import Iterable, List

import torch

from ._job import Tensor
from ._library import ShoalError

_SMALL = (torch.bool, torch.uint8, torch.int8, torch.int16)
_HALF = (torch.float16, torch.bfloat16)


def _kind(name: str, tensor: torch.Tensor) -> str:
    if tensor.layout != torch.strided or tensor.is_quantized:
        raise ShoalError(f"tensor {name} is sparse or quantized; keep it dense, or leave it out of "
                         "what is handed to shoal")
    if tensor.dtype == torch.float32:
        return "same"
    if tensor.dtype in _HALF:
        return "half"
    if tensor.dtype in _SMALL:
        return "small"
    if tensor.element_size() % 4 == 0:
        return "bits"
    raise ShoalError(f"tensor {name} is of {tensor.dtype}, which shoal cannot carry; convert it to "
                     "float32 or bfloat16")


def host_like(shape: Iterable[int], pinned: bool) -> torch.Tensor:
    """Zeros on the CPU that a GPU can copy to and from while other things go on."""
    return torch.zeros(tuple(shape), dtype=torch.float32, pin_memory=pinned)


def decode(words: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The tensor of that dtype whose bits the float32 words hold."""
    if dtype in _SMALL:
        return words.view(torch.int32).to(dtype)
    count = torch.empty(0, dtype=dtype).element_size() // 4
    shape = words.shape if count == 1 else words.shape[:-1]
    return words.contiguous().reshape(-1).view(dtype).reshape(shape)


class Mirror:
    """One live tensor and its host words."""

    def __init__(self, name: str, live: torch.Tensor, *, stage: bool = False) -> None:
        self.kind = _kind(name, live)
        dtype = str(live.dtype).replace("torch.", "")
        self.name = name if self.kind in ("same", "half") else f"{name}:{dtype}"
        self.live = live
        self.shared = (self.kind == "same" and live.device.type == "cpu" and live.is_contiguous()
                       and not stage)
        if self.shared:
            self.host = live.detach()
        else:
            words = live.element_size() // 4 if self.kind == "bits" else 1
            shape = live.shape if words == 1 else (*live.shape, words)
            self.host = host_like(shape, live.is_cuda)
            self.push()

    def words(self) -> Tensor:
        """What libshoal is told."""
        return Tensor(self.name, self.host.data_ptr(), tuple(self.host.shape), self.host)

    def push(self) -> None:
        """Live to host. The copy from a GPU may still be under way: see settle()."""
        live = self.live.detach()
        if self.shared:
            if live.data_ptr() != self.host.data_ptr():
                raise ShoalError(f"the memory of {self.name} was replaced (by .data = or .to()?) "
                                 "after shoal was told of it; join after the last such change")
        elif self.kind == "bits":
            self.host.copy_(live.cpu().contiguous().reshape(-1).view(torch.float32)
                            .reshape(self.host.shape))
        elif self.kind == "small":
            self.host.copy_(live.cpu().to(torch.int32).contiguous().view(torch.float32))
        else:
            self.host.copy_(live, non_blocking=True)

    def pull(self) -> None:
        """Host to live."""
        if self.shared:
            return
        with torch.no_grad():
            if self.kind in ("bits", "small"):
                self.live.copy_(decode(self.host, self.live.dtype))
            else:
                self.live.copy_(self.host, non_blocking=True)


def settle(mirrors: List[Mirror]) -> None:
    """Waits until the copies of these mirrors are complete."""
    for device in {mirror.live.device for mirror in mirrors if mirror.live.is_cuda}:
        torch.cuda.synchronize(device)
