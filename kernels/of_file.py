"""A generated file as a function of torch tensors."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from torch import Tensor

from schedgen.codegen.facts import Facts, Parameter, read_facts
from schedgen.kernels import checks, layouts, operators
from schedgen.kernels.errors import ArgumentTypeError, ArgumentValueError
from schedgen.kernels.launcher import DTYPES, launcher
from schedgen.kernels.operators import Operator

_SHOWN = 16
_WHOLE = 1 << 31
"""Integers of kernels are below this, and not below minus this."""


class GeneratedKernel:
    """A file written by ``schedgen emit`` as a function; `library.load` makes one.

    It is an operator of torch, which torch.compile takes as it is.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.facts = path.resolve(), read_facts(path)
        self._operator = self._define()

    def __call__(self, *arguments: Tensor | float) -> None:
        """Runs the kernel on the current stream.

        Arguments are the file's ARGUMENTS in their order: tensors on one GPU, contiguous in the
        last dimension, with addresses and strides that are multiples of 16 bytes; then numbers.
        Results are written into the tensors that OUTPUTS names.

        Raises:
            ArgumentValueError, ArgumentTypeError: an argument does not fit.
            DeviceError, LaunchError, CompileError: see `schedgen.kernels.launcher.launcher`.
        """
        count = len(self.facts.tensors)
        tensors, numbers = arguments[:count], arguments[count:]
        fits = len(arguments) == len(self.facts.parameters)
        if fits and all(isinstance(tensor, Tensor) for tensor in tensors):
            given = zip(self.facts.scalars, numbers, strict=True)
            self._operator(*tensors, *(one.number(float(value)) for one, value in given))
        else:
            self.run(*arguments)  # which says what is wrong

    def run(self, *arguments: Tensor | float) -> None:
        """The same without the operator, for operators that are made of it."""
        wanted = self.facts.parameters
        if len(arguments) != len(wanted):
            names = ", ".join(parameter.name for parameter in wanted)
            raise ArgumentValueError(
                "arguments", f"there are {len(arguments)}", f"{len(wanted)}", f"pass {names}"
            )
        tensors: list[Tensor] = []
        extents: dict[str, int] = {}
        for parameter, argument in zip(wanted, arguments, strict=True):
            if parameter.extents:
                tensors.append(_fitting(parameter, argument, extents))
        _covered(self.facts, extents)
        given = zip(self.facts.scalars, arguments[len(tensors) :], strict=True)
        scalars = [_number(one, value) for one, value in given]
        device = checks.devices(**{p.name: t for p, t in zip(wanted, tensors, strict=False)})
        launcher(self.path, device).launch(tensors, scalars)

    def _define(self) -> Operator:
        """The operator, named by where the file is and what is in it."""
        unique = sha256(f"{self.path}\n{self.facts.sha256}".encode()).hexdigest()[:_SHOWN]
        name = f"{self.facts.kernel}_{self.facts.target}_{unique}"
        found = operators.defined(name)
        if found is not None:
            return found
        written = {n: chr(ord("a") + at) for at, n in enumerate(self.facts.outputs)}
        takes = [
            f"Tensor({written[p.name]}!) {p.name}_" if p.name in written else f"Tensor {p.name}_"
            for p in self.facts.tensors
        ]
        scalars = self.facts.scalars
        takes += [f"{'int' if scalar.whole else 'float'} {scalar.name}_" for scalar in scalars]
        anew = [f"{scalar.name}_" for scalar in scalars if scalar.whole]
        return Operator(f"{name}({', '.join(takes)}) -> ()", self.run, _nothing, anew=anew)


def _number(parameter: Parameter, value: Tensor | float) -> float:
    """A scalar as kernels take it; one of a plan stays one."""
    if not parameter.whole:
        return value if isinstance(value, float) else float(value)
    whole = value if isinstance(value, int) else int(value)
    if not -_WHOLE <= whole < _WHOLE:
        allowed = f"from {-_WHOLE} to {_WHOLE - 1}"
        raise ArgumentValueError(parameter.name, f"it is {whole}", allowed, "pass its low 32 bits")
    return whole


def _nothing(*arguments: object) -> None:
    """What the operator returns, also for tensors without data."""


def _covered(facts: Facts, extents: Mapping[str, int]) -> None:
    """No extent is larger than what the kernel covers of it."""
    for extent, most in facts.covered:
        if extents[extent] > most:
            argument = next(p.name for p in facts.tensors if extent in p.extents)
            raise ArgumentValueError(
                argument,
                f"its {extent} is {extents[extent]}",
                f"at most {most}, which {facts.kernel} covers as a whole",
                "emit the kernel with larger tiles",
            )


def _fitting(parameter: Parameter, argument: object, extents: dict[str, int]) -> Tensor:
    name, shape = parameter.name, "(" + ", ".join(parameter.extents) + ")"
    if not isinstance(argument, Tensor):
        raise ArgumentTypeError(name, f"it is a {type(argument).__name__}", "a tensor", shape)
    dtype = DTYPES[parameter.dtype]
    if argument.dtype != dtype:
        raise ArgumentTypeError(
            name, f"its dtype is {argument.dtype}", f"{dtype}", f"{name}.to({dtype})"
        )
    if argument.dim() != len(parameter.extents):
        raise ArgumentValueError(
            name, f"it has {argument.dim()} dimensions", shape, f"reshape it to {shape}"
        )
    for extent, size in zip(parameter.extents, argument.shape, strict=True):
        if extents.setdefault(extent, size) != size or not size:
            got = f"its {extent} is {size}"
            raise ArgumentValueError(
                name, got, f"{extents[extent] or 'at least 1'}", "pass tensors that fit together"
            )
    reason = layouts.problem(argument)
    if reason is not None:
        allowed = "contiguous rows, address and strides multiples of 16 bytes"
        raise ArgumentValueError(name, reason, allowed, f"{name}.contiguous()")
    return argument
