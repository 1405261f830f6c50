"""The generated kernels of `schedgen.kernels` for `emulate_hardware`: small and ragged.

Integers make the sums of products exact, so that the result is defined bit by bit. Kernels with
approximate functions (gelu, exponentials) get normal numbers and a bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from typing import Any

import numpy as np
import torch

from schedgen.codegen import compiling
from schedgen.codegen.facts import Facts, Parameter, read_facts
from schedgen.kernels import layouts
from schedgen.kernels.launcher import DTYPES
from schedgen.kernels.library import named
from schedgen.kernels.regenerate import TARGETS, shipped

ARCH = "sm_90a"
SMS = 2
SIZES = {
    "batch": 2, "m": 264, "n": 264, "k": 136, "depth": 128, "width": 72,
    "part": 3, "seq_q": 150, "seq_k": 203, "heads": 2, "heads_k": 1,
}  # fmt: skip
"""m and n are equal, because some kernels have symmetric results."""
SCALARS = {"alpha": 1.0, "beta": 1.0, "scale": 0.125}
_SOFT = "lse"
"""An output that only kernels with exponentials have."""


@dataclass(frozen=True)
class Generated:
    """A shipped kernel at one set of extents."""

    name: str
    sizes: Mapping[str, int]

    @cached_property
    def facts(self) -> Facts:
        """Of its file, which is made for that."""
        return read_facts(named(f"{self.name}.py"))

    @property
    def exact(self) -> bool:
        """Whether it only multiplies and adds."""
        return {p.name for p in self.facts.scalars} == {"alpha", "beta"} or not (
            self.facts.scalars or any(len(p.extents) == 1 for p in self.facts.tensors)
        )

    def arguments(self, device: str) -> list[Any]:
        """Seeded inputs, poisoned outputs, scalars."""
        generator = torch.Generator().manual_seed(1)
        found: list[Any] = []
        for parameter in self.facts.parameters:
            if not parameter.extents:
                found.append(SCALARS[parameter.name])
                continue
            shape = [self.sizes[extent] for extent in parameter.extents]
            values = self._values(parameter, shape, generator)
            found.append(_rows(values.to(device, DTYPES[parameter.dtype])))
        return found

    def _values(self, parameter: Parameter, shape: list[int], random: torch.Generator) -> Any:
        if parameter.name in self.facts.outputs:
            return torch.full(shape, torch.nan)
        if self.exact:
            return torch.randint(-3, 4, shape, generator=random).float()
        return torch.randn(shape, generator=random) / 2

    def outputs(self, arguments: list[Any]) -> dict[str, torch.Tensor]:
        """Those of the arguments that are written, by name."""
        pairs = zip(self.facts.parameters, arguments, strict=True)
        return {p.name: value for p, value in pairs if p.name in self.facts.outputs}

    def rule(self, found: Mapping[str, torch.Tensor]) -> tuple[str, dict[str, np.ndarray]]:
        """In words what difference is allowed, and how much per element; nothing if none is."""
        if self.exact:
            return "bits", {}
        largest = {name: value.float().abs().max().item() for name, value in found.items()}
        bounds: dict[str, np.ndarray] = {}
        for name, value in found.items():
            each = value.float().abs().numpy()
            eps = torch.finfo(value.dtype).eps
            if name == _SOFT:
                bounds[name] = np.full(each.shape, 2.0**-18)
            elif _SOFT in found:
                tensors = zip(self.facts.parameters, self.arguments("cpu"), strict=True)
                v = next(t for p, t in tensors if p.name == "v").float().abs().max().item()
                bounds[name] = eps * (each + v)
            else:
                bounds[name] = eps * each + 2.0**-12 * largest[name]
        if _SOFT in found:
            return "one rounding of P and one of the result (eps (max|v| + |o|)); lse 2^-18", bounds
        return "one rounding of the result and the error of tanh.approx (2^-12 max|d|)", bounds


def _rows(values: torch.Tensor) -> torch.Tensor:
    """With rows at multiples of 16 bytes."""
    per = 16 // values.element_size()
    width = -(-values.shape[-1] // per) * per
    padded = values.new_zeros(*values.shape[:-1], width)
    padded[..., : values.shape[-1]] = values
    return padded[..., : values.shape[-1]]


def cases() -> list[Generated]:
    """All shipped kernels for Hopper."""
    found: list[Generated] = []
    for kernel in shipped():
        if TARGETS[kernel.target] == ARCH:
            given = {name: int(value) for name, value in kernel.settings if value.isdigit()}
            found.append(Generated(kernel.name.removesuffix(".py"), {**SIZES, **given}))
    return found


def on_gpu(case: Generated) -> dict[str, torch.Tensor]:
    """Outputs, on the host."""
    from schedgen.kernels import load

    arguments = case.arguments("cuda")
    load(named(f"{case.name}.py"))(*arguments)
    torch.cuda.synchronize()
    return {name: value.cpu() for name, value in case.outputs(arguments).items()}


_module = cache(compiling._module)  # pyright: ignore[reportPrivateUsage]
"""Modules stay: the DSL mistakes a function for one whose memory it got."""


def emulated(case: Generated) -> tuple[dict[str, torch.Tensor], str]:
    """Outputs, and what the race checker finds."""
    from schedgen.emulator.emulation import device

    cute: Any = import_module("cutlass.cute")
    runtime: Any = import_module("cutlass.cute.runtime")
    stream = import_module("cuda.bindings.driver").CUstream(0)
    arguments = case.arguments("cpu")
    with device(ARCH, races="report", sms=SMS) as gpu:
        passed: list[Any] = []
        for value in arguments:
            if not isinstance(value, torch.Tensor):
                passed.append(value)
                continue
            view = value.as_strided(value.shape, (*layouts.strides(value), 1))
            made = runtime.from_dlpack(view, assumed_align=16)
            passed.append(made.mark_layout_dynamic(leading_dim=view.ndim - 1))
        module = _module(named(f"{case.name}.py"))
        function = cute.compile(module.launch, *passed, SMS, stream)
        function(*passed, stream)
    return case.outputs(arguments), gpu.reports[-1].text
