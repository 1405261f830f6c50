"""What a caller has to know about a generated file, at its end as literals: types of arguments,
roles, memory. They are read without importing the file, which would import the DSL.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from schedgen.codegen.errors import EmitError
from schedgen.codegen.trees import read_tree
from schedgen.tensors import INTEGERS

if TYPE_CHECKING:
    from schedgen.kernel import Kernel
    from schedgen.program.model import Program

NAMES = {
    "KERNEL": "kernel",
    "TARGET": "target",
    "ARGUMENTS": "parameters",
    "OUTPUTS": "outputs",
    "ROLES": "roles",
    "CYCLES_PER_ITERATION": "cycles",
    "SHARED_BYTES": "shared_bytes",
    "TENSOR_COLUMNS": "tensor_columns",
}
"""Constants that every generated file ends with, and attributes of `Facts`."""
COVERED, STYLE = "COVERED", "STYLE"
"""Where there are such extents; and where it is not written plainly (`schedgen.codegen.style`)."""
ORIGIN = {"MACHINE": "machine", "SETTINGS": "settings", "PROGRAM_SHA256": "program_sha256"}
"""What it was made from, which files of earlier versions do not say."""
PACE = "PACE"
"""And one where roles are kept to the order of the schedule on some units: which these are."""
CLAIM = "CLAIM"
"""And how blocks come to output tiles, where that is not fixed (`schedgen.spec.claiming`)."""
SUMS = "SUMS"
"""And results that it adds to, where there are some: what they hold is an input."""
TURNS = "TURNS"
"""And arrays in which output tiles tell whose turn it is to add, with how many words they need."""
TELLS = "TELLS"
"""And the array in which its output tiles count themselves for the next kernel."""
FOLLOWS = "FOLLOWS"
"""And the array by which it waits for those of the kernel before."""
_READ = {*NAMES, *ORIGIN, CLAIM, COVERED, PACE, STYLE, SUMS, TURNS, TELLS, FOLLOWS}


@dataclass(frozen=True, slots=True)
class Parameter:
    """An argument of ``launch``: a tensor with named extents, or a scalar, which has none."""

    name: str
    extents: tuple[str, ...]
    dtype: str

    @property
    def whole(self) -> bool:
        """Whether it has integers."""
        return self.dtype in INTEGERS

    def number(self, value: float) -> float:
        """``value`` as it is passed for this scalar: an int if it is one of integers."""
        return int(value) if self.whole else float(value)


COUNTER = Parameter("counter", ("counters",), "i32")
"""What ``launch`` takes beside its arguments where blocks claim tiles."""


@dataclass(frozen=True, slots=True)
class RoleFacts:
    """A role of the kernel with its warps and the registers that each of their threads may use."""

    name: str
    warps: int
    registers: int


@dataclass(frozen=True, slots=True)
class Facts:
    """What the end of a generated file says.

    Attributes:
        kernel: name of the spec.
        target: architecture, such as ``sm_90a``.
        parameters: arguments of ``launch`` before ``sms`` and ``stream``, tensors first.
        outputs: names of those that the kernel writes.
        roles: in the order of the program.
        cycles: of the main loop per iteration, in the machine model.
        shared_bytes: dynamic shared memory of a block.
        tensor_columns: columns of tensor memory in use.
        sha256: of the whole file, in hexadecimal.
        covered: extents of which the kernel covers a fixed number of elements, and how many.
        machine: the machine model that it was solved for; empty if the file does not say.
        settings: all parameters of the spec with their values.
        program_sha256: of the program that it was emitted from, see `program_digest`.
        pace: units on which its roles are kept to the order of the schedule.
        style: how it is written, see `schedgen.codegen.style`; empty if plainly.
        claim: how blocks come to output tiles, a word of `schedgen.spec.claiming`.
        sums: those of ``outputs`` that the kernel adds to.
        turns: arguments that are zeros before each launch, and not afterwards
            (`schedgen.ordered`): a word for each tile along some extents, given with how many
            elements a tile has, and for each of so many iterations, an expression over extents.
        tells: the argument in which output tiles count themselves (`schedgen.following`), with its
            extents and the others that tiles are cut along, with how many elements a tile has.
        follows: the argument by which it waits for tiles of the kernel before, '' if it does not.
    """

    kernel: str
    target: str
    parameters: tuple[Parameter, ...]
    outputs: tuple[str, ...]
    roles: tuple[RoleFacts, ...]
    cycles: int
    shared_bytes: int
    tensor_columns: int
    sha256: str
    covered: tuple[tuple[str, int], ...] = ()
    machine: str = ""
    settings: tuple[tuple[str, str], ...] = ()
    program_sha256: str = ""
    pace: tuple[str, ...] = ()
    style: tuple[str, ...] = ()
    claim: str = "fixed"
    sums: tuple[str, ...] = ()
    turns: tuple[tuple[str, tuple[tuple[str, int], ...], str], ...] = ()
    tells: tuple[str, tuple[str, ...], tuple[tuple[str, int], ...]] | None = None
    follows: str = ""

    @property
    def tensors(self) -> tuple[Parameter, ...]:
        return tuple(parameter for parameter in self.parameters if parameter.extents)

    @property
    def counted(self) -> bool:
        """Whether ``launch`` takes, behind the tensors of ``parameters``, a counter that is 0 when
        the kernel begins, and when it has ended (docs/adr/0025).
        """
        return self.claim == "dynamic"

    @property
    def scalars(self) -> tuple[Parameter, ...]:
        return tuple(parameter for parameter in self.parameters if not parameter.extents)


def file_name(kernel: str, arch: str, settings: Mapping[str, str], pace: Iterable[str] = ()) -> str:
    """How the file of a kernel is called: ``SPEC_ARCH[_variant].py``.

    The variant lists ``settings``: words by themselves, numbers after their parameter's name,
    ``true`` as the name alone; then ``pace`` and the units on which an order is kept.
    """
    parts = [kernel, arch]
    for name, value in settings.items():
        if value == "true":
            parts.append(name)
        elif value == "false":
            parts.append(f"no_{name}")
        else:
            parts.append(value if value[:1].isalpha() else name + value)
    for unit in pace:
        parts.append(f"pace_{unit.lower()}")
    return re.sub(r"\W", "_", "_".join(parts)) + ".py"


def constants(program: Program, kernel: Kernel, style: tuple[str, ...] = ()) -> str:
    """The lines that `read_facts` reads back."""
    from schedgen.extents import covered
    from schedgen.kernel import Kind, Space
    from schedgen.program.digest import program_digest
    from schedgen.sums import summed

    ordered = sorted(kernel.arguments, key=lambda argument: not argument.shape)  # as in `launch`
    written = {o.tensor for o in kernel.operations if o.kind is Kind.STORE}
    # Shared memory begins with 1024 bytes for the barriers.
    shared = [s.address + s.size for s in program.allocations if s.space is Space.SMEM]
    columns = [s.address + s.size for s in program.allocations if s.space is Space.TMEM]
    rows = [
        f"KERNEL = {_text(kernel.name)}",
        f"TARGET = {_text(program.arch)}",
        *_table("ARGUMENTS", [(a.name, a.passed, a.dtype) for a in ordered]),
        f"OUTPUTS = {_text(tuple(a.name for a in ordered if a.name in written))}",
        *_table("ROLES", [(r.name, r.all_warps, r.registers) for r in program.roles]),
        f"CYCLES_PER_ITERATION = {program.ii_cycles}",
        f"SHARED_BYTES = {max(shared, default=1024)}",
        f"TENSOR_COLUMNS = {max(columns, default=0)}",
        f"MACHINE = {_text(program.target)}",
        *_table("SETTINGS", [tuple(setting) for setting in kernel.parameters]),
        f"PROGRAM_SHA256 = {_text(program_digest(program))}",
    ]
    if program.paced:
        rows.append(f"{PACE} = {_text(program.paced)}")
    if kernel.claim != "fixed":
        rows.append(f"{CLAIM} = {_text(kernel.claim)}")
    sums = summed(kernel)
    if sums:
        rows.append(f"{SUMS} = {_text(tuple(a.name for a in ordered if a.name in sums))}")
    rows += _turns(kernel)
    rows += _following(kernel)
    if style:
        rows.append(f"{STYLE} = {_text(style)}")
    most = covered(kernel)
    if most:
        rows += _table(COVERED, list(most.items()))
    return "\n".join(rows) + "\n"


def _turns(kernel: Kernel) -> list[str]:
    """The line with its arrays of turns, if there are any."""
    from schedgen.expressions import render
    from schedgen.ordered import most_trips, ordered_sums

    block = {axis.extent: axis.block for axis in kernel.grid}
    trips = most_trips(kernel)
    found = [
        (one.turns, tuple((axis, block[axis]) for axis in one.places), render(trips))
        for one in ordered_sums(kernel)
        if trips is not None
    ]
    return [f"{TURNS} = {_text(tuple(found))}"] if found else []


def _following(kernel: Kernel) -> list[str]:
    """The line with the words of its tiles, or of those that it waits for."""
    from schedgen.following import counted_along, words_of

    argument = words_of(kernel)
    if argument is None:
        return []
    if kernel.follows:
        return [f"{FOLLOWS} = {_text(argument.name)}"]
    return [f"{TELLS} = {_text((argument.name, argument.shape, counted_along(kernel)))}"]


def _table(name: str, rows: list[tuple[Any, ...]]) -> list[str]:
    return [f"{name} = (", *(f"    {_text(row)}," for row in rows), ")"]


def _text(value: object) -> str:
    """A literal as the formatter writes it."""
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, tuple):
        items = [_text(item) for item in cast("tuple[object, ...]", value)]
        return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
    return str(value)


def read_facts(path: Path) -> Facts:
    """The facts of the generated file ``path``. Raises EmitError if it is not one."""
    data, tree = read_tree(path)
    found: dict[str, Any] = {}
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in _READ:
                found[name] = _literal(path, name, value)
            case _:
                pass
    missing = [name for name in NAMES if name not in found]
    if missing:
        raise EmitError(f"{path}: there is no {missing[0]}; give a file written by 'schedgen emit'")
    try:
        found["ARGUMENTS"] = tuple(Parameter(*row) for row in found["ARGUMENTS"])
        found["ROLES"] = tuple(RoleFacts(*row) for row in found["ROLES"])
        known = NAMES | {name: attribute for name, attribute in ORIGIN.items() if name in found}
        values = {attribute: found[name] for name, attribute in known.items()}
        most = tuple(tuple(row) for row in found.get(COVERED, ()))
        pace, style, sums = (tuple(found.get(name, ())) for name in (PACE, STYLE, SUMS))
        return Facts(
            **values,
            sha256=sha256(data).hexdigest(),
            covered=most,
            pace=pace,
            style=style,
            claim=found.get(CLAIM, "fixed"),
            sums=sums,
            turns=tuple(found.get(TURNS, ())),
            tells=found.get(TELLS),
            follows=found.get(FOLLOWS, ""),
        )
    except TypeError as error:
        raise EmitError(f"{path}: {error}; write it again with 'schedgen emit'") from None


def _literal(path: Path, name: str, value: ast.expr) -> Any:
    try:
        return ast.literal_eval(value)
    except ValueError:
        raise EmitError(f"{path}:{value.lineno}: {name} has to be a literal") from None
