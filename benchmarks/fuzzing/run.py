"""One random spec through everything that there is, and how that ends."""

from __future__ import annotations

import hashlib
import re
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
import torch
from fuzzing.sketch import Case, text_of

from schedgen.comparing import compare
from schedgen.errors import SchedgenError, SpecError
from schedgen.extents import beyond
from schedgen.interpret.pieces import TORCH
from schedgen.kernel import Kernel, Kind
from schedgen.reference.evaluate import Expected

SOLVE_SECONDS = 15.0
RUN_SECONDS = 60.0
SMS = 2
VALIDATE = True
"""Whether to compare the PTX with the program."""


class Ending(StrEnum):
    """How a spec ends. All but the first two are failures."""

    RIGHT = "right"
    REFUSED = "refused"
    NO_FIX = "refused without a fix"
    TRACEBACK = "traceback"
    DISAGREE = "interpreter and numpy differ"
    AMBIGUOUS = "several tiles store different values"
    REJECTED = "right, but validation of the PTX rejects it"
    WRONG = "wrong"
    RACE = "race"
    DEADLOCK = "deadlock"
    STOPPED = "the emulator stops"
    TIMEOUT = "timeout"
    CRASH = "the process ends"

    @property
    def failure(self) -> bool:
        return self not in (Ending.RIGHT, Ending.REFUSED)


@dataclass
class Outcome:
    """What came of a case.

    Attributes:
        stage: the last one that began.
        reason: of a refusal its rule, of a failure what tells it from others.
        detail: the message, in full.
        unknown: share of the results' elements of which the reference knows nothing.
    """

    ending: Ending
    stage: str
    reason: str = ""
    detail: str = ""
    proven: bool = False
    emulated: bool = False
    unknown: float = 0.0
    seconds: dict[str, float] = field(default_factory=dict[str, float])

    @property
    def kind(self) -> tuple[str, str, str]:
        """What two failures of one mechanism most likely have in common."""
        return self.ending.value, self.stage, self.reason

    def row(self) -> dict[str, Any]:
        return asdict(self)


class _Ended(Exception):
    def __init__(self, ending: Ending, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.ending, self.reason = ending, reason


def judge(case: Case, told: Callable[[str], object] = str) -> Outcome:
    """Solves, proves, emits, compiles, executes under two schedules, and compares; each stage is
    ``told`` as it begins.
    """
    run = _Run(case, told)
    try:
        run.all()
    except _Ended as ended:
        return run.outcome(ended.ending, ended.reason, str(ended))
    except Exception as error:
        return run.outcome(*_described(error, run.stage))
    return run.outcome(Ending.RIGHT, "", "")


def _described(error: Exception, stage: str) -> tuple[Ending, str, str]:
    """What an error means: a refusal, if it is one that the stage raises on purpose."""
    from schedgen.bounds import ImpossibleCycle
    from schedgen.emulator.emulation import RaceError
    from schedgen.emulator.machine.lanes import EmulationError
    from schedgen.proof.prove import Refuted
    from schedgen.synchronize.build import ProgramError

    text = str(error)
    if stage in ("reference", "interpreter", "compare"):
        return Ending.TRACEBACK, type(error).__name__, _trace(error)
    if isinstance(error, RaceError):
        return Ending.RACE, _rule(text), text
    if isinstance(error, EmulationError):
        ending = Ending.DEADLOCK if text.startswith("deadlock") else Ending.STOPPED
        return ending, _rule(text), text
    if isinstance(error, SpecError):
        first = error.diagnostics[0]
        ending = Ending.REFUSED if first.fix else Ending.NO_FIX
        return ending, first.rule, text
    if isinstance(error, Refuted):
        claim = error.proof.findings[0].claim.value
        return (Ending.REFUSED if "fix:" in text else Ending.NO_FIX), claim, text
    if isinstance(error, SchedgenError | ProgramError) and not isinstance(error, ImpossibleCycle):
        return (Ending.REFUSED if "fix:" in text else Ending.NO_FIX), _rule(text), text
    return Ending.TRACEBACK, f"{type(error).__name__} at {_place(error)}", _trace(error)


def _rule(text: str) -> str:
    """The rule that a message names in brackets, else its words without names and numbers."""
    named = re.search(r"\[([a-z]+(?:-[a-z]+)+|[A-Z][0-9]+(?:,[^]]*)?)\]", text)
    if named:
        return named[1]
    first = re.sub(r"^(PTX line \d+|error|[^ ]*): ", "", text.splitlines()[0])
    plain = re.sub(
        r"'[^']*'|\b[A-Za-z_]*\d[\w.,\[\]]*|\b[a-zA-Z_]*[A-Z][\w\[\],]*|\(.*?\)", "", first
    )
    return " ".join(re.findall(r"[a-z]+", plain))[:60]


def _place(error: Exception) -> str:
    """The innermost function of this project that an exception came through."""
    own = [
        f for f in traceback.extract_tb(error.__traceback__) if "/site-packages/" not in f.filename
    ]
    own = [f for f in own if "fuzz" not in Path(f.filename).name] or own
    return f"{Path(own[-1].filename).name}:{own[-1].name}" if own else "?"


def _trace(error: Exception) -> str:
    return "".join(traceback.format_exception(error))[-3000:]


class _Run:
    """A case on its way; ``stage`` is where it is."""

    def __init__(self, case: Case, told: Callable[[str], object]) -> None:
        self.case, self.told = case, told
        self.stage = "read"
        self.seconds: dict[str, float] = {}
        self.proven = self.emulated = False
        self.unknown = 0.0

    def outcome(self, ending: Ending, reason: str, detail: str) -> Outcome:
        return Outcome(
            ending,
            self.stage,
            reason,
            detail,
            self.proven,
            self.emulated,
            self.unknown,
            self.seconds,
        )

    @contextmanager
    def _at(self, stage: str) -> Iterator[None]:
        self.stage = stage
        self.told(stage)
        begin = perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] = round(perf_counter() - begin, 3)

    def all(self) -> None:
        from schedgen.codegen.emit import emit
        from schedgen.driver.solution import solve
        from schedgen.emulator.machine.policies import Adversarial, RoundRobin
        from schedgen.machine_file import read_machine
        from schedgen.proof.prove import prove
        from schedgen.spec.reader import parse_spec
        from schedgen.synchronize.synthesize import synthesize

        with self._at("read"):
            spec = parse_spec(text_of(self.case.data), "fuzz.yaml")
        with self._at("solve"):
            machine = read_machine(self.case.target)
            solution = solve(spec, machine, time_limit=SOLVE_SECONDS)
        kernel = solution.problem.kernel
        with self._at("synthesize"):
            program = synthesize(kernel, solution.schedule, solution.problem.machine)
        with self._at("prove"):
            proven = prove(program, ("graph", "execution"), quick=True)
        self.proven = True
        with self._at("emit"):
            text = emit(proven, kernel)
        extents = dict(self.case.extents)
        with self._at("extents"):  # as `schedgen emulate` and the launch function do
            if wrong := beyond(kernel, extents):
                raise SchedgenError(wrong)
        inputs = random_inputs(kernel, extents, self.case)
        with self._at("reference"):
            expected = _reference(kernel, inputs, extents)
        with self._at("interpreter"):
            self._interpret(kernel, inputs, expected)
        with self._at("compile"), _compiled(text, kernel, inputs, extents, program.arch) as launch:
            for name, policy in (("round-robin", RoundRobin()), ("adversarial", Adversarial(1))):
                with self._at("emulate"):
                    outputs = _executed(launch, policy)
                self.emulated = True
                with self._at("compare"):
                    _compare(outputs, expected, Ending.WRONG, name)
            if VALIDATE:
                with self._at("validate"):
                    _validate(launch.module, program, kernel)

    def _interpret(
        self, kernel: Kernel, inputs: Mapping[str, Any], expected: Mapping[str, Expected]
    ) -> None:
        from schedgen.interpret.sequential import run

        for name, one in expected.items():
            errors = one.number.error[one.stores > 0]
            self.unknown = max(self.unknown, float(np.isinf(errors).mean()) if errors.size else 0.0)
            if one.clashes.any():
                detail = f"{name}: {one.clashes.sum()} elements are stored more than once"
                raise _Ended(Ending.AMBIGUOUS, "stores", detail)
        found = run(kernel, inputs, self.case.extents)
        values = {name: tensor.double().numpy() for name, tensor in found.items()}
        _compare(values, expected, Ending.DISAGREE, "interpreter")


def random_inputs(kernel: Kernel, extents: Mapping[str, int], case: Case) -> dict[str, Any]:
    """Tensors and scalars of a case. "special" ones have infinities, and what is no number."""
    from schedgen.driver.inputs import random_inputs as normal

    inputs = normal(kernel, extents, 0)
    loaded, stored = (
        {o.tensor for o in kernel.operations if o.kind is kind} for kind in (Kind.LOAD, Kind.STORE)
    )
    both = loaded & stored
    for argument in (a for a in kernel.arguments if a.name in both):
        shape = [extents[extent] for extent in argument.shape]
        inputs[argument.name] = torch.ones(shape, dtype=TORCH[argument.dtype])
    if case.inputs == "special":
        seed = int(hashlib.sha256(str(case.data).encode()).hexdigest()[:8], 16)
        draw = np.random.default_rng(seed)
        for value in inputs.values():
            if isinstance(value, torch.Tensor) and value.ndim and value.dtype.itemsize > 1:
                for number in draw.permutation([np.nan, np.inf, -np.inf, 1e30])[:3]:
                    value[tuple(int(draw.integers(size)) for size in value.shape)] = number
    return inputs


def _arrays(inputs: Mapping[str, Any]) -> dict[str, Any]:
    return {n: v.double().numpy() if isinstance(v, torch.Tensor) else v for n, v in inputs.items()}


def _reference(
    kernel: Kernel, inputs: Mapping[str, Any], extents: Mapping[str, int]
) -> dict[str, Expected]:
    from schedgen.reference.evaluate import evaluate

    return evaluate(kernel, _arrays(inputs), extents)


def _compare(
    outputs: Mapping[str, Any], expected: Mapping[str, Expected], ending: Ending, name: str
) -> None:
    """Raises `_Ended` if an element is further from the reference than it may be."""
    for tensor, one in expected.items():
        number = one.number
        axes = tuple(map(str, range(one.stores.ndim)))
        found = compare(outputs[tensor], number.value, number.error, one.stores > 0, axes)
        if not found.matches:
            assert found.worst is not None
            outside = one.stores[found.worst.at] == 0
            nan = np.isnan(found.worst.found) != np.isnan(found.worst.wanted)
            reason = "stored outside" if outside else "NaN" if nan else "values"
            raise _Ended(ending, reason, f"{name}: {found.text(tensor)}")


def _executed(launch: _Launch, policy: Any) -> Any:
    """The outputs. Raises `_Ended` if the emulator stops at registers of Hopper's products, and
    `schedgen emit` refuses the kernel for them.
    """
    from schedgen.codegen.fenced import unfenced
    from schedgen.emulator.machine.lanes import EmulationError

    try:
        return launch(policy)
    except EmulationError:
        found = unfenced(launch.module) if launch.module is not None else ()
        if not found:
            raise
        text = f"{found[0]} with no {found[0].missing} between them"
        raise _Ended(Ending.REFUSED, "unfenced", text) from None


def _validate(module: Any, program: Any, kernel: Kernel) -> None:
    """Compares the PTX with the program. Raises `_Ended` if they differ: the kernel was right."""
    from schedgen.conform.check import conform

    found = conform(module, program, kernel)
    if not found.holds:
        first = found.findings[0]
        text = "\n".join(finding.text for finding in found.findings)
        raise _Ended(Ending.REJECTED, _rule(first.message), text[:3000])


class _Launch:
    """A compiled kernel with its inputs: called with an order of warps, it gives the outputs.

    ``module`` is its PTX, once it has been called.
    """

    def __init__(self, function: Any, gpu: Any, kernel: Kernel, inputs: Any, extents: Any) -> None:
        self.function, self.gpu, self.kernel = function, gpu, kernel
        self.inputs, self.extents = inputs, extents
        self.module: Any = None
        gpu.emulator.rewrite = self._keep

    def _keep(self, module: Any) -> Any:
        self.module = module
        return module

    def __call__(self, policy: Any) -> dict[str, Any]:
        from schedgen.driver.emulating import _passed, _stream

        arguments = {**self.inputs, **_outputs(self.kernel, self.inputs, self.extents)}
        self.gpu.emulator.policy = policy
        self.function(*_passed(self.kernel, arguments), _stream())
        report = self.gpu.reports[-1]
        if report.errors:
            raise _Ended(Ending.RACE, _rule(report.text), report.text[:3000])
        stored = {o.tensor for o in self.kernel.operations if o.kind is Kind.STORE}
        return {n: v.double().numpy() for n, v in arguments.items() if n in stored}


def _outputs(kernel: Kernel, inputs: Any, extents: Mapping[str, int]) -> dict[str, Any]:
    """Tensors full of NaN for what is stored; a copy of what is an input, too."""
    from schedgen.driver.inputs import aligned

    found: dict[str, Any] = {}
    for argument in kernel.arguments:
        if argument.name in {o.tensor for o in kernel.operations if o.kind is Kind.STORE}:
            made = aligned(argument, [extents[e] for e in argument.shape]).fill_(torch.nan)
            found[argument.name] = (
                made.copy_(inputs[argument.name]) if argument.name in inputs else made
            )
    return found


@contextmanager
def _compiled(
    text: str, kernel: Kernel, inputs: Any, extents: Mapping[str, int], arch: str
) -> Iterator[_Launch]:
    from schedgen.driver.emulating import _module, _passed, _stream, generated_switches
    from schedgen.emulator.emulation import device

    with (
        TemporaryDirectory(prefix="fuzz-") as folder,
        device(
            arch, races="report", switches=generated_switches(), sms=SMS, seconds=RUN_SECONDS
        ) as gpu,
    ):
        module = _module(text, Path(folder))
        from cutlass import cute

        arguments = {**inputs, **_outputs(kernel, inputs, extents)}
        function: Any = cute.compile(module.launch, *_passed(kernel, arguments), SMS, _stream())
        yield _Launch(function, gpu, kernel, inputs, extents)
