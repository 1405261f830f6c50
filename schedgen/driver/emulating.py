"""A generated kernel in the emulator, beside what its spec computes (level 2 of the checks)."""

from __future__ import annotations

import importlib.util
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from schedgen.codegen.compiling import CompileError, first_lines
from schedgen.codegen.facts import read_facts
from schedgen.comparing import Compared
from schedgen.driver.inputs import (
    Wanted,
    compared,
    default_extents,
    outputs,
    random_inputs,
    wanted,
    without_padding,
)
from schedgen.driver.turns import told, told_right
from schedgen.kernel import Kernel
from schedgen.tensors import INTEGERS

if TYPE_CHECKING:
    from schedgen.emulator.emulation import EmulatedDevice, Report
    from schedgen.emulator.machine.policies import Policy
    from schedgen.emulator.machine.switches import Switches
    from schedgen.emulator.order.footprint import Ranges
    from schedgen.emulator.race.banks import Banks

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


@dataclass
class Compiled:
    """A generated file, compiled once, for tensors of any extents. `compiled` makes one.

    ``counter`` is what the kernel claims its tiles from, if it does: each run leaves it at 0.
    ``banks`` counts bank conflicts of all runs, if that is wanted.
    """

    kernel: Kernel
    _function: Any
    _gpu: EmulatedDevice
    counter: torch.Tensor | None = None
    banks: Banks | None = None
    _wanted: dict[tuple[Any, ...], Wanted] = field(default_factory=dict[Any, Any])

    def run(
        self, extents: Mapping[str, int] | None = None, policy: Policy | None = None, seed: int = 0
    ) -> Outcome:
        """Executes it and compares with what the spec computes; arguments as of `emulate`."""
        kernel = self.kernel
        sizes = default_extents(kernel, extents or {})
        key = (seed, *sizes.items())
        if key not in self._wanted:
            self._wanted[key] = wanted(kernel, sizes, seed)
        right = self._wanted[key]
        results = outputs(kernel, sizes, right.inputs)
        zeros = {n: torch.zeros_like(torch.as_tensor(right.inputs[n])) for n in told(kernel)}
        self.execute({**right.inputs, **results, **zeros}, policy)
        found = compared(kernel, without_padding(kernel, results, sizes), right.expected)
        found |= {
            n: told_right(kernel, sizes, words) for n, words in zeros.items() if n == kernel.tells
        }
        return Outcome(sizes, found, right.interpreted, self._gpu.reports[-1])

    def execute(
        self, values: Mapping[str, torch.Tensor | float], policy: Policy | None = None
    ) -> None:
        """Executes it on arguments by name, and writes into those that it stores."""
        from schedgen.emulator.machine.policies import RoundRobin

        self._gpu.emulator.followed = _followed(self.kernel, values)
        self._gpu.emulator.policy = policy or RoundRobin()
        self._function(*_passed(self.kernel, values, self.counter), _stream())


def _followed(kernel: Kernel, values: Mapping[str, torch.Tensor | float]) -> Ranges | None:
    """Where the words are by which a kernel follows tiles of another one."""
    from schedgen.emulator.order.footprint import Ranges

    if kernel.follows is None:
        return None
    words = torch.as_tensor(values[kernel.follows[0]])
    begin, steps = words.data_ptr(), zip(words.shape, words.stride(), strict=True)
    last = sum((size - 1) * step for size, step in steps)
    return Ranges(np.array([begin]), np.array([begin + (last + 1) * words.element_size()]))


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
    banks: bool = False,
) -> Generator[Compiled]:
    """Inside, a generated file can be executed again and again; arguments as of `emulate`.

    Args:
        limit: warp instructions that an execution may take; None: as many as any kernel
            (`schedgen.emulator.machine.launch.LIMIT`).
        stall: seconds of processor time that it may take without progress; None: ``STALL`` there.
        seconds: by the clock, for an execution; None: any.
        banks: whether to count bank conflicts, for which each run is executed twice.

    Raises:
        SchedgenError: the architecture is not there.
    """
    from schedgen.emulator.emulation import device
    from schedgen.emulator.machine.launch import LIMIT, STALL
    from schedgen.emulator.race.banks import Banks

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

        arguments = {**random_inputs(kernel, sizes, 0), **outputs(kernel, sizes)}
        counter = _counter() if kernel.claim == "dynamic" else None
        passed = [*_passed(kernel, arguments, counter), sms, _stream()]
        try:
            function: Any = cute.compile(module.launch, *passed)
        except Exception as error:  # the DSL's own kinds, none of which is told apart
            raise CompileError(
                f"{kernel.name} does not compile for {arch}:\n{first_lines(error)}\n"
                "  fix: 'schedgen emit' writes the file that the message is about"
            ) from error
        counts = gpu.emulator.after = Banks() if banks else None
        yield Compiled(kernel, function, gpu, counter, counts)


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


def _passed(
    kernel: Kernel, values: Mapping[str, torch.Tensor | float], counter: torch.Tensor | None = None
) -> list[Any]:
    """The arguments of ``launch`` but the last two."""
    tensors = [_dynamic(torch.as_tensor(values[a.name])) for a in kernel.arguments if a.shape]
    scalars = [
        (int if a.dtype in INTEGERS else float)(values[a.name])
        for a in kernel.arguments
        if not a.shape
    ]
    return [*tensors, *([] if counter is None else [_dynamic(counter)]), *scalars]


def _counter() -> torch.Tensor:
    """One for a kernel that claims its tiles."""
    return torch.zeros(1, dtype=torch.int32)


def _dynamic(value: torch.Tensor) -> Any:
    """A tensor for the DSL, of any extents."""
    from cutlass.cute.runtime import from_dlpack

    made: Any = from_dlpack(value, assumed_align=16)
    return made.mark_layout_dynamic(leading_dim=value.ndim - 1)


def _stream() -> Any:
    import cuda.bindings.driver as cuda

    return cuda.CUstream(0)  # pyright: ignore[reportUnknownVariableType]


def launched(
    text: str,
    arch: str,
    tensors: Sequence[torch.Tensor],
    scalars: Sequence[float],
    *,
    sms: int = 2,
    policy: Policy | None = None,
) -> Report:
    """Compiles a generated file and executes it in the emulator on ``tensors``, in the order of its
    ARGUMENTS, whose results it writes; returns what ran, and the findings of the race checker.

    Raises:
        CompileError, SchedgenError: as of `compiled`.
    """
    from schedgen.emulator.emulation import device

    with (
        TemporaryDirectory(prefix="schedgen-") as folder,
        device(arch, races="report", switches=generated_switches(), sms=sms) as gpu,
    ):
        module = _module(text, Path(folder))
        from cutlass import cute  # which takes the architecture when it is imported

        counted = read_facts(Path(module.__file__ or "")).counted
        tensors = [*tensors, *([_counter()] if counted else [])]
        passed = [*map(_dynamic, tensors), *scalars]
        try:
            function: Any = cute.compile(module.launch, *passed, sms, _stream())
        except Exception as error:  # the DSL's own kinds, none of which is told apart
            raise CompileError(f"it does not compile for {arch}:\n{first_lines(error)}") from error
        if policy is not None:
            gpu.emulator.policy = policy
        function(*passed, _stream())
        return gpu.reports[-1]
