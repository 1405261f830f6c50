"""A generated kernel in the emulator, beside what its spec computes (level 2 of the checks)."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch

from schedgen.codegen.compiling import CompileError, first_lines
from schedgen.conditional import conditions
from schedgen.errors import SchedgenError, suggest
from schedgen.expressions import references
from schedgen.interpret.pieces import TORCH
from schedgen.interpret.sequential import run
from schedgen.kernel import Kernel, Kind
from schedgen.tensors import Argument

if TYPE_CHECKING:
    from schedgen.emulator.emulation import EmulatedDevice, Report
    from schedgen.emulator.machine.policies import Policy
    from schedgen.emulator.machine.switches import Switches

_ALIGNMENT = 16  # bytes: what bulk tensor copies ask of every stride but the innermost
_FACTOR = 4
"""Errors allowed, in units of the rounding of the data type: sums in another order, and the
approximate functions of the hardware."""


@dataclass(frozen=True)
class Outcome:
    """How one emulation ended.

    Attributes:
        errors: of each output, the Frobenius norm of the difference over that of the reference.
        report: what ran, and the findings of the race checker.
    """

    extents: Mapping[str, int]
    errors: Mapping[str, float]
    allowed: Mapping[str, float]
    report: Report

    @property
    def correct(self) -> bool:
        return all(self.errors[name] <= self.allowed[name] for name in self.errors)

    @property
    def clean(self) -> bool:
        """Whether nothing was found, or nobody looked."""
        return not self.report.errors


def default_extents(kernel: Kernel, given: Mapping[str, int]) -> dict[str, int]:
    """Small extents with ragged ends: one tile and a part of another along each axis of the grid,
    two iterations and a part of another along what the main loop walks. What is ``given`` has the
    last word; it may have values of scalar arguments, too.

    Raises:
        SchedgenError: ``given`` names what is neither an extent nor a scalar argument.
    """
    parameters = dict(kernel.parameters)
    blocks = {axis.extent: axis.block for axis in kernel.grid if axis.block > 1}
    steps: dict[str, int] = {}
    twice: set[str] = set()
    for place in (place for o in kernel.operations for place in o.places):
        if place.step:
            steps[place.extent] = max(steps.get(place.extent, 0), place.step)
        if place.grouped:
            twice.add(place.along)
        if place.share:
            twice.add(place.share)
    found: dict[str, int] = {}
    for extent in dict.fromkeys(e for a in kernel.arguments for e in a.shape):
        if extent in steps:
            found[extent] = 2 * steps[extent] + 8
        elif extent in parameters:
            found[extent] = int(parameters[extent])
        elif extent in blocks:
            found[extent] = blocks[extent] + 8
        else:
            found[extent] = 1
    found.update(dict.fromkeys(sorted(twice), 2))
    scalars = {argument.name for argument in kernel.arguments if not argument.shape}
    for name in given:
        if name not in found and name not in scalars:
            fix = suggest(name, found) or f"the extents are {', '.join(found)}"
            raise SchedgenError(f"'{name}' is not an extent of {kernel.name}; {fix}")
    return {**found, **given}


def random_inputs(
    kernel: Kernel, extents: Mapping[str, int], seed: int
) -> dict[str, torch.Tensor | float]:
    """Normal numbers for tensors, small ones for scalars that ``extents`` has no value of."""
    generator = torch.Generator().manual_seed(seed)
    stored = _stored(kernel)
    found: dict[str, torch.Tensor | float] = {}
    for argument in kernel.arguments:
        if not argument.shape:
            small = 0.125 + 0.5 * torch.rand((), generator=generator).item()
            found[argument.name] = float(extents.get(argument.name, small))
        elif argument.name not in stored:
            shape = [extents[extent] for extent in argument.shape]
            values = torch.randn(shape, generator=generator)
            found[argument.name] = _aligned(argument, shape).copy_(values)
    return found


def shapes(kernel: Kernel) -> dict[str, dict[str, int]]:
    """Extents at which a kernel should be checked, by name: all at 1; ragged ends, several output
    tiles with few iterations; a main loop with more iterations than rings have slots; and with
    zeros for scalars that decide whether something is loaded.
    """
    ragged = default_extents(kernel, {})
    steps = {p.extent: p.step for o in kernel.operations for p in o.places if p.step}
    axes = {axis.extent: axis.block for axis in kernel.grid if axis.block > 1}
    fixed = {*steps, *(name for name, _ in kernel.parameters)}
    tiles = [extent for extent in axes if extent not in fixed]
    free = [*tiles, *steps]
    loops = {extent: 7 * step + 8 for extent, step in steps.items()}
    loops |= {place.share: 1 for o in kernel.operations for place in o.places if place.share}
    found = {
        "tiny": {**ragged, **dict.fromkeys(free, 1)},
        "ragged": ragged,
        "long loop": {**ragged, **dict.fromkeys(tiles, 8), **loops},
    }
    scalars = {argument.name for argument in kernel.arguments if not argument.shape}
    names = {name.name for one in conditions(kernel).values() for name in references(one)}
    decide = sorted(names & scalars)
    if decide:
        found["zero " + " ".join(decide)] = {**ragged, **dict.fromkeys(decide, 0)}
    return found


@dataclass
class Compiled:
    """A generated file, compiled once, for tensors of any extents. `compiled` makes one."""

    kernel: Kernel
    _function: Any
    _gpu: EmulatedDevice
    _wanted: dict[tuple[Any, ...], dict[str, torch.Tensor]] = field(default_factory=dict[Any, Any])

    def run(
        self, extents: Mapping[str, int] | None = None, policy: Policy | None = None, seed: int = 0
    ) -> Outcome:
        """Executes it and compares with the interpreted spec; arguments as of `emulate`."""
        from schedgen.emulator.machine.policies import RoundRobin

        kernel = self.kernel
        sizes = default_extents(kernel, extents or {})
        inputs = random_inputs(kernel, sizes, seed)
        key = (seed, *sizes.items())
        if key not in self._wanted:
            self._wanted[key] = run(kernel, inputs, sizes)
        wanted, outputs = self._wanted[key], _outputs(kernel, sizes)
        self._gpu.emulator.policy = policy or RoundRobin()
        self._function(*_passed(kernel, {**inputs, **outputs}), _stream())
        errors = {name: _error(value, wanted[name]) for name, value in outputs.items()}
        allowed = {
            name: _FACTOR * torch.finfo(_coarsest(kernel, value.dtype)).eps
            for name, value in outputs.items()
        }
        return Outcome(sizes, errors, allowed, self._gpu.reports[-1])


@contextmanager
def compiled(
    text: str,
    kernel: Kernel,
    arch: str,
    *,
    races: bool = True,
    switches: Switches | None = None,
    sms: int = 2,
    limit: int | None = None,
    stall: float | None = None,
    seconds: float | None = None,
) -> Generator[Compiled]:
    """Inside, a generated file can be executed again and again; arguments as of `emulate`.

    Args:
        limit: warp instructions that an execution may take; None: as many as any kernel
            (`schedgen.emulator.machine.launch.LIMIT`).
        stall: seconds of processor time that it may take without progress; None: ``STALL`` there.
        seconds: by the clock, for an execution; None: any.

    Raises:
        SchedgenError: the architecture is not there.
    """
    from schedgen.emulator.emulation import device
    from schedgen.emulator.machine.launch import LIMIT, STALL

    sizes = default_extents(kernel, {})
    found = "report" if races else "off"
    readings = switches or generated_switches()
    with (
        TemporaryDirectory(prefix="schedgen-") as folder,
        device(
            arch,
            races=found,
            switches=readings,
            sms=sms,
            limit=LIMIT if limit is None else limit,
            stall=STALL if stall is None else stall,
            seconds=seconds,
        ) as gpu,
    ):
        module = _module(text, Path(folder))
        from cutlass import cute  # which takes the architecture when it is imported

        arguments = {**random_inputs(kernel, sizes, 0), **_outputs(kernel, sizes)}
        passed = [*_passed(kernel, arguments), sms, _stream()]
        try:
            function: Any = cute.compile(module.launch, *passed)
        except Exception as error:  # the DSL's own kinds, none of which is told apart
            raise CompileError(
                f"{kernel.name} does not compile for {arch}:\n{first_lines(error)}\n"
                "  fix: 'schedgen emit' writes the file that the message is about"
            ) from error
        yield Compiled(kernel, function, gpu)


def generated_switches() -> Switches:
    """Readings for generated code: the letter of the ISA but for the order of products, which one
    thread issues (S22): `schedgen.proof` supposes a queue as well.
    """
    from schedgen.emulator.machine.switches import STRICT, ProductOrder

    return replace(STRICT, product_order=ProductOrder.QUEUE)


def emulate(
    text: str,
    kernel: Kernel,
    arch: str,
    *,
    extents: Mapping[str, int] | None = None,
    policy: Policy | None = None,
    races: bool = True,
    seed: int = 0,
    sms: int = 2,
    switches: Switches | None = None,
) -> Outcome:
    """Compiles a generated file, runs it in the emulator and compares with the interpreted spec.

    Args:
        text: what `schedgen.codegen.emit.emit` wrote for ``kernel``.
        extents: sizes of the tensors; `default_extents` fills in the others.
        policy: the order of warps and asynchronous operations.
        races: whether to check that accesses are ordered.
        seed: of the inputs.
        sms: CTAs that work at a time; each gets several tiles if there are few.
        switches: readings of the ISA; `generated_switches` by default.

    Raises:
        SchedgenError: an extent is wrong, or the kernel does something undefined or hangs.
    """
    with compiled(text, kernel, arch, races=races, switches=switches, sms=sms) as made:
        return made.run(extents, policy, seed)


def _stored(kernel: Kernel) -> set[str]:
    return {o.tensor or "" for o in kernel.operations if o.kind is Kind.STORE}


def _aligned(argument: Argument, shape: list[int]) -> torch.Tensor:
    """An uninitialized tensor with rows at multiples of 16 bytes."""
    dtype = TORCH[argument.dtype]
    per = _ALIGNMENT // dtype.itemsize
    padded = [*shape[:-1], -(-shape[-1] // per) * per]
    return torch.empty(math.prod(padded), dtype=dtype).view(padded)[..., : shape[-1]]


def _module(text: str, folder: Path) -> ModuleType:
    """The file as a module: the DSL reads the source of what it compiles."""
    path = folder / "generated.py"
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("generated", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _outputs(kernel: Kernel, sizes: Mapping[str, int]) -> dict[str, torch.Tensor]:
    """Tensors full of NaN for what the kernel stores."""
    return {
        argument.name: _aligned(argument, [sizes[e] for e in argument.shape]).fill_(torch.nan)
        for argument in kernel.arguments
        if argument.name in _stored(kernel)
    }


def _passed(kernel: Kernel, values: Mapping[str, torch.Tensor | float]) -> list[Any]:
    """The arguments of ``launch`` but the last two."""
    from cutlass.cute.runtime import from_dlpack

    def tensor(value: torch.Tensor) -> Any:
        made: Any = from_dlpack(value, assumed_align=16)
        return made.mark_layout_dynamic(leading_dim=value.ndim - 1)

    tensors = [tensor(torch.as_tensor(values[a.name])) for a in kernel.arguments if a.shape]
    return [*tensors, *(float(values[a.name]) for a in kernel.arguments if not a.shape)]


def _stream() -> Any:
    import cuda.bindings.driver as cuda

    return cuda.CUstream(0)  # pyright: ignore[reportUnknownVariableType]


def _coarsest(kernel: Kernel, dtype: torch.dtype) -> torch.dtype:
    """A float32 output is as exact as the 16-bit operands of the products before it."""
    inputs = [TORCH[a.dtype] for a in kernel.arguments if a.shape]
    return max([dtype, *inputs], key=lambda one: torch.finfo(one).eps)


def _error(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """Relative error in the Frobenius norm; infinite where one is a number and the other is not."""
    if not torch.equal(found.isnan(), wanted.isnan()):
        return float("inf")
    one, other = found.double().nan_to_num(), wanted.double().nan_to_num()
    square = (other * other).sum().item()
    return math.sqrt(((one - other) ** 2).sum().item() / max(square, 1e-300))
