"""The steps of a role's loop, and the machine code of each.

Steps that synchronize, multiply or copy have instructions of their own; what the assembler put
between two of them is executed there, whatever operation it belongs to. Several roles may execute
one loop of the machine code, if they do the same with other data.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from schedgen.conform.assembly import KINDS
from schedgen.conform.listing import PRODUCTS
from schedgen.conform.listing import Machine as Instruction
from schedgen.kernel import Space
from schedgen.program.model import (
    Arrive,
    Fence,
    FenceKind,
    Program,
    RoleProgram,
    Run,
    Step,
    Wait,
    WaitGroup,
)
from schedgen.program.operations import Engine

_MORE = (
    ("BAR.ARV", "bar.arrive"),
    ("BAR", "bar.sync"),
    ("DEPBAR", "wait_group copies"),
    ("FENCE", "fence"),
    ("LDS", "read"),
    ("STS", "write"),
)
"""The same as `KINDS` of what has no counterpart in another order."""
_STORES = {"add": "store"}
_MULTIPLY = "wgmma"
_ACCESSES = ("read", "write")
"""They tell loops from each other, and are no step."""
_COPIES = ("load", "store")
_STEPS = frozenset(
    (
        *("wait", "arrive", "expect", "bar.arrive", "bar.sync", "fence", *_COPIES, *_ACCESSES),
        *("wait_group products", "wait_group copies"),
    )
)
"""Parts that are no products."""
_COMPUTES = ("FADD", "FFMA", "FMNMX", "FMUL", "F2FP", "HADD2", "HFMA2", "MUFU")


@dataclass(frozen=True, slots=True)
class Part:
    """Instructions ``begin`` to ``end`` of a loop's turn that are one step, or accesses that follow
    each other.
    """

    kind: str
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Matched:
    """A role's loop: ``turn``, what each of its turns executes, and which of it are steps, by the
    number of the step in the program; ``share`` of all steps and parts that have a counterpart.
    """

    turn: tuple[Instruction, ...]
    steps: tuple[tuple[int, Part], ...]
    share: float


def matched(program: Program, turns: Sequence[Sequence[Instruction]]) -> dict[str, Matched]:
    """The machine code of all roles with a loop, by name of the role."""
    cut = [(tuple(turn), tuple(_parts(turn))) for turn in turns]
    found: dict[str, Matched] = {}
    taken: dict[int, object] = {}
    for role in program.roles:
        kinds = list(_kinds(role, program))
        if not role.loop or not cut:
            continue
        shape = role.warps, tuple(kind for _, kind in kinds)
        fits = [_fits(kinds, c, role, taken.get(n, shape) == shape) for n, c in enumerate(cut)]
        best = fits.index(max(fits))
        taken.setdefault(best, shape)
        turn, parts = cut[best]
        pairs = _common([kind for _, kind in kinds], [part.kind for part in parts])
        steps = tuple((kinds[a][0], parts[b]) for a, b in pairs if kinds[a][1] not in _ACCESSES)
        found[role.name] = Matched(turn, steps, _share(len(pairs), kinds, parts))
    return found


def _fits(
    kinds: Sequence[tuple[int, str]],
    code: tuple[tuple[Instruction, ...], tuple[Part, ...]],
    role: RoleProgram,
    free: bool,
) -> tuple[float, bool, int]:
    """How well a loop is the role's: by its steps, by whether other roles have it, and by its
    length. Of loops with the same steps the one that also masks is longer; where nothing is a
    step, threads that compute have the one that computes most.
    """
    turn, parts = code
    share = _share(len(_common([k for _, k in kinds], [p.kind for p in parts])), kinds, parts)
    if kinds or role.warps == 1:
        return round(share, 6), free, -len(turn)
    return round(share, 6), free, sum(one.opcode.startswith(_COMPUTES) for one in turn)


def _share(pairs: int, kinds: Sequence[object], parts: Sequence[object]) -> float:
    total = len(kinds) + len(parts)
    return 2 * pairs / total if total else 0.0


def _kinds(role: RoleProgram, program: Program) -> Iterator[tuple[int, str]]:
    """The steps of a role's loop that machine code shows, by number."""
    for number, step in enumerate(role.loop):
        for kind in _kind(step, program):
            yield number, kind


def _kind(step: Step, program: Program) -> Iterator[str]:
    action = step.action
    if isinstance(action, Wait | Arrive):
        numbered = program.barrier[action.barrier].kind != "mbarrier"
        if isinstance(action, Wait):
            yield "bar.sync" if numbered else "wait"
        else:
            yield "bar.arrive" if numbered else "expect" if action.bytes else "arrive"
    elif isinstance(action, WaitGroup):
        products = program.operation[action.operation].engine is Engine.WGMMA
        yield "wait_group products" if products else "wait_group copies"
    elif isinstance(action, Fence) and action.kind is FenceKind.ASYNC_PROXY:
        yield "fence"
    elif isinstance(action, Run):
        operation = program.operation[action.operation]
        named = {
            Engine.WGMMA: _MULTIPLY,
            Engine.COPY_IN: "load",
            Engine.COPY_OUT: "store",
        }.get(operation.engine)
        if named:
            yield named
            return
        spaces = {allocation.name: allocation.space for allocation in program.allocations}
        shared = [a for a in operation.accesses if spaces[a.allocation] is Space.SMEM]
        for write in (False, True):
            if any(access.write is write for access in shared):
                yield _ACCESSES[write]


def _parts(turn: Sequence[Instruction]) -> Iterator[Part]:
    """The parts of a turn that steps may be, in order."""
    found: list[Part] = []
    group = -1
    for at, one in enumerate(turn):
        if one.opcode in PRODUCTS:
            if one.multiplies:
                if group < 0:
                    group = len(found)
                    found.append(Part(_MULTIPLY, at, at + 1))
                found[group] = Part(_MULTIPLY, found[group].begin, at + 1)
            if one.closes:
                group = -1
            continue
        kind = next((k for start, k in (*KINDS, *_MORE) if one.name.startswith(start)), None)
        kind = _STORES.get(kind, kind) if kind else None
        if kind not in _STEPS:
            continue
        if found and found[-1].kind == kind and kind in (*_COPIES, *_ACCESSES):
            found[-1] = Part(kind, found[-1].begin, at + 1)
        else:
            found.append(Part(kind, at, at + 1))
    yield from found


def _common(a: Sequence[str], b: Sequence[str]) -> list[tuple[int, int]]:
    """The longest common subsequence, as pairs of places."""
    longest = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i in reversed(range(len(a))):
        for j in reversed(range(len(b))):
            both = longest[i + 1][j + 1] + 1 if a[i] == b[j] else 0
            longest[i][j] = max(longest[i + 1][j], longest[i][j + 1], both)
    pairs: list[tuple[int, int]] = []
    i = j = 0
    while i < len(a) and j < len(b):
        if a[i] == b[j] and longest[i][j] == longest[i + 1][j + 1] + 1:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif longest[i + 1][j] >= longest[i][j + 1]:
            i += 1
        else:
            j += 1
    return pairs
