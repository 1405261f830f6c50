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

import numpy as np
import torch

from schedgen.codegen.compiling import CompileError, first_lines
from schedgen.comparing import Array, Compared, compare
from schedgen.conditional import conditions
from schedgen.errors import SchedgenError, suggest
from schedgen.expressions import references
from schedgen.extents import beyond, covered
from schedgen.interpret.pieces import TORCH
from schedgen.interpret.sequential import run
from schedgen.kernel import Kernel, Kind
from schedgen.reference.evaluate import Expected, evaluate
from schedgen.tensors import Argument

if TYPE_CHECKING:
    from schedgen.emulator.emulation import EmulatedDevice, Report
    from schedgen.emulator.machine.policies import Policy
    from schedgen.emulator.machine.switches import Switches

_ALIGNMENT = 16  # bytes: what bulk tensor copies ask of every stride but the innermost


@dataclass(frozen=True)
class Outcome:
    """How one emulation ended.

    Attributes:
        results: each output beside the reference, element by element.
        interpreted: the same of what the interpreter makes of the spec.
        report: what ran, and the findings of the race checker.
    """

    extents: Mapping[str, int]
    results: Mapping[str, Compared]
    interpreted: Mapping[str, Compared]
    report: Report

    @property
    def errors(self) -> dict[str, float]:
        """Of each output, the Frobenius norm of the difference over that of the reference."""
        return {name: result.error for name, result in self.results.items()}

    @property
    def allowed(self) -> dict[str, float]:
        """The same of the error bounds of its elements."""
        return {name: result.allowed for name, result in self.results.items()}

    @property
    def matches(self) -> bool:
        """Whether each element is what the spec says, within its bound."""
        return all(result.matches for result in self.results.values())

    @property
    def correct(self) -> bool:
        """Whether, beside, that is a number, and both references say the same."""
        defined = all(result.defined for result in self.results.values())
        return self.matches and defined and all(r.matches for r in self.interpreted.values())

    @property
    def reservations(self) -> list[str]:
        """What keeps results that match from being correct, in words."""
        found = [result.reservation(name) for name, result in self.results.items()]
        for name, result in self.interpreted.items():
            if not result.matches:
                found.append(
                    "the interpreter and the reference disagree about what the spec computes, "
                    f"which is a defect of schedgen: {result.text(name)}"
                )
        return [text for text in found if text]

    @property
    def clean(self) -> bool:
        """Whether nothing was found, or nobody looked."""
        return not self.report.errors


def default_extents(kernel: Kernel, given: Mapping[str, int]) -> dict[str, int]:
    """Small extents with ragged ends: one tile and a part of another along each axis of the grid,
    two iterations and a part of another along what the main loop walks. What is ``given`` has the
    last word; it may have values of scalar arguments, too.

    Raises:
        SchedgenError: ``given`` names what is neither an extent nor a scalar argument, or an extent
            is larger than what the kernel covers.
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
    most = covered(kernel)
    found: dict[str, int] = {}
    for extent in dict.fromkeys(e for a in kernel.arguments for e in a.shape):
        if extent in steps:
            found[extent] = 2 * steps[extent] + 8
        elif extent in parameters:
            found[extent] = int(parameters[extent])
        elif extent in blocks:
            found[extent] = blocks[extent] + 8
        else:
            found[extent] = most.get(extent, 1)
    found.update(dict.fromkeys(sorted(twice), 2))
    found = {extent: min(size, most.get(extent, size)) for extent, size in found.items()}
    scalars = {argument.name for argument in kernel.arguments if not argument.shape}
    for name in given:
        if name not in found and name not in scalars:
            fix = suggest(name, found) or f"the extents are {', '.join(found)}"
            raise SchedgenError(f"'{name}' is not an extent of {kernel.name}; {fix}")
    wrong = beyond(kernel, given)
    if wrong:
        raise SchedgenError(wrong)
    return {**found, **given}


def random_inputs(
    kernel: Kernel, extents: Mapping[str, int], seed: int, *, positive: bool = False
) -> dict[str, torch.Tensor | float]:
    """Normal numbers for tensors, or their absolute values if ``positive``; small ones for scalars
    that ``extents`` has no value of.
    """
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
            values = values.abs() if positive else values
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
    most = covered(kernel)
    loops = {extent: min(size, most.get(extent, size)) for extent, size in loops.items()}
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


@dataclass(frozen=True)
class Wanted:
    """Inputs with what the spec makes of them.

    Attributes:
        expected: by the evaluation with numpy, with an error bound for each element.
        interpreted: what the interpreter makes of them, beside that.
    """

    inputs: Mapping[str, torch.Tensor | float]
    expected: Mapping[str, Expected]
    interpreted: Mapping[str, Compared]


def wanted(kernel: Kernel, sizes: Mapping[str, int], seed: int) -> Wanted:
    """Random inputs of ``sizes`` and what the spec makes of them. Inputs of both signs, but
    positive ones where the results of some would be no numbers, as logarithms and roots are.
    """
    inputs = random_inputs(kernel, sizes, seed)
    expected = evaluate(kernel, _numbers(inputs), sizes)
    if _undefined(expected):
        others = random_inputs(kernel, sizes, seed, positive=True)
        found = evaluate(kernel, _numbers(others), sizes)
        if not _undefined(found):
            inputs, expected = others, found
    return Wanted(inputs, expected, _compared(kernel, run(kernel, inputs, sizes), expected))


def _undefined(expected: Mapping[str, Expected]) -> bool:
    """Whether something that is stored is not a number."""
    return any(bool(np.isnan(e.number.value[e.stores > 0]).any()) for e in expected.values())


def _numbers(inputs: Mapping[str, torch.Tensor | float]) -> dict[str, Array | float]:
    return {
        name: value.double().numpy() if isinstance(value, torch.Tensor) else value
        for name, value in inputs.items()
    }


def _compared(
    kernel: Kernel, found: Mapping[str, torch.Tensor], expected: Mapping[str, Expected]
) -> dict[str, Compared]:
    """Each output beside what is expected of it."""
    shapes = {argument.name: argument.shape for argument in kernel.arguments}
    return {
        name: compare(
            value.double().numpy(),
            expected[name].number.value,
            expected[name].number.error,
            expected[name].stores > 0,
            shapes[name],
        )
        for name, value in found.items()
    }


@dataclass
class Compiled:
    """A generated file, compiled once, for tensors of any extents. `compiled` makes one."""

    kernel: Kernel
    _function: Any
    _gpu: EmulatedDevice
    _wanted: dict[tuple[Any, ...], Wanted] = field(default_factory=dict[Any, Any])

    def run(
        self, extents: Mapping[str, int] | None = None, policy: Policy | None = None, seed: int = 0
    ) -> Outcome:
        """Executes it and compares with what the spec computes; arguments as of `emulate`."""
        from schedgen.emulator.machine.policies import RoundRobin

        kernel = self.kernel
        sizes = default_extents(kernel, extents or {})
        key = (seed, *sizes.items())
        if key not in self._wanted:
            self._wanted[key] = wanted(kernel, sizes, seed)
        right, outputs = self._wanted[key], _outputs(kernel, sizes)
        self._gpu.emulator.policy = policy or RoundRobin()
        self._function(*_passed(kernel, {**right.inputs, **outputs}), _stream())
        results = _compared(kernel, outputs, right.expected)
        return Outcome(sizes, results, right.interpreted, self._gpu.reports[-1])


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
