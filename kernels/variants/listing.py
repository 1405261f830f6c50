"""Lists of blocks by a kernel that is made of the mask's expression.

It is an operator of torch like those of other kernels: a call of `attention` that finds its blocks
has this launch in its plan, before that of attention.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from hashlib import sha256
from typing import Any

import torch
from torch import Tensor

from schedgen.codegen.compiling import CompileError
from schedgen.codegen.facts import read_facts
from schedgen.kernels import cache, checks, layouts, operators, plans
from schedgen.kernels.launcher import launcher
from schedgen.kernels.operators import Operator
from schedgen.kernels.variants.block_kernel import NAME, RESULTS, parts_of, room, text_of
from schedgen.kernels.variants.calling import Asked
from schedgen.kernels.variants.reading import number_name
from schedgen.kernels.variants.spec import BASE

log = logging.getLogger("schedgen.kernels")

_SHOWN = 16
Results = tuple[Tensor, Tensor, Tensor, Tensor]


class ListKernel:
    """What lists blocks for a mask; `kernel_of` makes one.

    Attributes:
        path: the generated file.
        parts: what it reads, in the order in which it is given.
    """

    def __init__(self, wanted: Asked, whole: Sequence[bool], arch: str) -> None:
        text = text_of(wanted, whole, arch)
        digest = sha256(text.encode()).hexdigest()
        self.path = cache.place(f"{NAME}_{arch}.py", digest)
        if not self.path.exists():
            cache.write(self.path, text)
        self.facts, self.parts = read_facts(self.path), parts_of(wanted)
        self._refused = False
        self._operator = self._define(f"{NAME}_{arch}_{digest[:_SHOWN]}")

    def __call__(
        self, tile: tuple[int, int], q: Tensor, k: Tensor, passed: Mapping[str, Any]
    ) -> Results:
        """Which tiles of queries in order, how many blocks each has, how many of them are full, and
        which ones: the attributes of `Blocks`.

        Args:
            tile: queries of a tile, and keys of a block.
            q, k: of these shapes and device count.
            passed: what attention's kernel is passed for the mask.
        """
        tensors = [passed[vector.argument] for vector in self.parts.vectors]
        numbers = [passed[number_name(name)] for name in self.parts.numbers]
        by = self._operator if plans.current() is None else self._operator.in_python
        return by(q, k, *tensors, *numbers, *tile)

    def usable(self, device: torch.device) -> bool:
        """Whether it compiles, which the first call on a machine finds out.

        Raises DeviceError, LaunchError: as of `schedgen.kernels.launcher.launcher`.
        """
        if self._refused:
            return False
        try:
            launcher(self.path, device)
        except CompileError as error:
            self._refused = True
            log.warning("lists of blocks are made by operations of torch: %s", error)
        return not self._refused

    def _define(self, name: str) -> Operator:
        found = operators.defined(name)
        if found is not None:
            return found
        takes = ["Tensor q", "Tensor k"]
        takes += [f"Tensor tensor{number}" for number in range(len(self.parts.vectors))]
        takes += [f"float number{number}" for number in range(len(self.parts.numbers))]
        takes += ["SymInt rows", "SymInt keys"]
        returns = ", ".join(["Tensor"] * len(RESULTS))
        return Operator(f"{name}({', '.join(takes)}) -> ({returns})", self._run, self._fake)

    def _run(self, q: Tensor, k: Tensor, *given: Any) -> Results:
        tensors = [layouts.accessible(one) for one in given[: len(self.parts.vectors)]]
        *numbers, rows, keys = given[len(tensors) :]
        results = self._fake(q, k, *given)
        tiles, blocks = results[-1].shape[-2:]
        slices = results[-1].numel() // (tiles * blocks)
        words = slices, room(self.parts, tiles, blocks)
        scratch = q.new_empty(words, dtype=torch.int32)
        flat = [one.view(slices, tiles) for one in results[:-1]]
        arrays = *tensors, scratch, *flat, results[-1].view(slices, tiles, blocks)
        heads = q.shape[2] if "head" in self.parts.along else 1
        sizes = q.shape[1], k.shape[1], rows, keys, heads
        launcher(self.path, checks.devices(q=q)).launch(arrays, (*numbers, *sizes))
        return results

    def _fake(self, q: Tensor, k: Tensor, *given: Any) -> Results:
        """The results without values, in layouts that attention's kernel reads as they are."""
        rows, keys = given[-2:]
        sizes = {"batch": q.shape[0], "head": q.shape[2]}
        shape = [*(sizes[name] for name in self.parts.along), -(-q.shape[1] // rows)]
        like = q.new_empty(0, dtype=torch.int32)
        order, counts, fulls = (layouts.room(like, shape) for _ in range(3))
        return order, counts, fulls, layouts.room(like, [*shape, -(-k.shape[1] // keys)])


_making = threading.Lock()
_made = lru_cache(maxsize=1024)(ListKernel)


def kernel_of(wanted: Asked, whole: tuple[bool, ...], arch: str) -> ListKernel:
    """The kernel for the mask of ``wanted``, one for all scores; ``whole``: as of `text_of`."""
    of_mask = replace(wanted, score=None, sinks=False, base=BASE)
    with _making:
        return _made(of_mask, whole, arch)


def whole_of(wanted: Asked, given: Mapping[str, Any]) -> tuple[bool, ...]:
    """Which of the tensors that a mask names have whole numbers."""
    return tuple(not given[one.name].is_floating_point() for one in parts_of(wanted).vectors)


def on_gpu(device: torch.device) -> bool:
    """Whether a kernel can run there."""
    return device.type == "cuda"
