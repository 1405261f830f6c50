"""Nodes as statements of the DSL: lines, calls, blocks, comments and functions, and no others.

Slots and phases of rings become calls, or variables of the loop that carries them along.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from schedgen.codegen.ir import (
    Arrive,
    Block,
    Call,
    Code,
    Comment,
    Commit,
    CommitGroup,
    Fence,
    Function,
    Guarded,
    Issue,
    Line,
    Loop,
    Node,
    Numbered,
    Phase,
    Stage,
    Uses,
    Value,
    Wait,
    WaitGroup,
    called,
    code,
    joined,
    plus,
)
from schedgen.codegen.numbers import Affine, Number
from schedgen.codegen.running import Carried, Iteration, PipelineState, Running, carried
from schedgen.codegen.style import WAIT

_COMMIT_GROUP = {
    "bulk": "cute.arch.cp_async_bulk_commit_group()",
    "wgmma": "warpgroup.commit_group()",
}
_WAIT_GROUP = {
    "bulk": "cute.arch.cp_async_bulk_wait_group({}, read=True)",
    "wgmma": "warpgroup.wait_group({})",
}

States = Mapping[Carried, PipelineState]
Statement = Line | Call | Comment | Uses | Block | Function


def lowered(nodes: Iterable[Node], states: States | None = None) -> tuple[Statement, ...]:
    """Nodes as statements; ``states`` are carried by the loop around them."""
    known = states or {}
    return tuple(statement for node in nodes for statement in _node(node, known))


def lowered_code(code_: Code, states: States | None = None) -> Code:
    """Code without iterations, slots and phases."""
    known = states or {}
    return joined("", (p if isinstance(p, str) else _value(p, known) for p in code_.parts))


def _value(value: Value, states: States) -> Value | Code | str:
    match value:
        case Iteration(base="", offset=offset):
            return Number(Affine(offset))
        case Iteration(base=base, offset=offset):
            return plus(base, offset)
        case Stage(number):
            found = carried(number, states)
            return _divided("slot", number) if found is None else states[found[0]].stage
        case Phase(number):
            found = carried(number, states)
            if found is None:
                return _divided("phase", number)
            phase = states[found[0]].phase
            return f"1 - {phase}" if found[1] % 2 else phase
        case _:
            return value


def _divided(function: str, number: Running) -> Code:
    turns, scale = 2 * number.slots, number.number.scale
    # where the number of a tile or iteration grows by whole turns, only the rest counts
    ahead = Number(Affine(number.ahead), summand=True, modulus=0 if scale % turns else turns)
    return called(function, code("{}{}", number.counted, ahead), number.slots)


def _node(node: Node, states: States) -> Iterator[Statement]:
    def low(code_: Code) -> Code:
        return lowered_code(code_, states)

    match node:
        case Line(line) | Fence(code=line):
            yield Line(low(line))
        case Call(head, arguments, end):
            yield Call(low(head), tuple(map(low, arguments)), end)
        case Comment() | Uses():
            yield node
        case Block(head, body):
            yield Block(low(head), lowered(body, states))
        case Guarded(terms, body):
            yield Block(code("if {}:", joined(" and ", map(low, terms))), lowered(body, states))
        case Loop():
            yield from _loop(node)
        case Wait(address, phase, prompt):
            given = low(address), low(phase)
            hinted = code("cute.arch.mbarrier_wait({}, {})", *given)
            yield Line(called(WAIT, *given) if prompt else hinted)
        case Arrive(address, elected, size):
            call = code("cute.arch.mbarrier_arrive({})", low(address))
            if size is not None:
                given = low(address), low(size)
                call = code("cute.arch.mbarrier_arrive_and_expect_tx({}, {})", *given)
            yield _elected(call, elected)
        case Numbered(number, threads, waits):
            call = "barrier" if waits else "barrier_arrive"
            given = f"barrier_id={number}, number_of_threads={threads}"
            yield Line(code(f"cute.arch.{call}({given})"))
        case Commit(address):
            yield _elected(code("tcgen05.commit({})", low(address)), elected=True)
        case CommitGroup("threads"):
            yield Line(called("copies_begun"))
        case WaitGroup("threads", pending):
            yield Line(called("copies_done", str(pending)))
        case CommitGroup(queue):
            yield Line(code(_COMMIT_GROUP[queue]))
        case WaitGroup(queue, pending):
            yield Line(code(_WAIT_GROUP[queue], Number(Affine(pending))))
        case Issue(operation, label, body):
            yield Comment(code("{}", operation + (f": {label}" if label else "")))
            yield from lowered(body, states)
        case Function(decorator, name, parameters, body):
            yield Function(decorator, name, parameters, lowered(body))


def _elected(line: Code, elected: bool) -> Statement:
    return Block(code("with cute.arch.elect_one():"), (Line(line),)) if elected else Line(line)


def _loop(loop: Loop) -> Iterator[Statement]:
    states = {state.carried: state for state in loop.states}
    if loop.begin is None:
        yield from (Line(begin(state, loop.first)) for state in loop.states)
    first = f"{loop.first}, " if loop.first else ""
    head = code(f"for turn in cutlass.range({first}{{}}, unroll=1):", loop.end)
    if loop.begin is not None:
        head = code("for turn in cutlass.range({}, {}, unroll=1):", loop.begin, loop.end)
    turns = (
        *lowered(loop.body, states),
        *(Line(advance(state)) for state in loop.states),
        *lowered(loop.last, states),
    )
    yield Block(head, turns)


def begin(state: PipelineState, turn: int) -> Code:
    """The line before a loop whose first turn is ``turn``."""
    number = state.begin(turn)
    both = _divided("slot", number), _divided("phase", number)
    return code("{}, {} = {}, {}", state.stage, state.phase, *both)


def advance(state: PipelineState) -> Code:
    """The line at the end of a turn."""
    both, by = f"{state.stage}, {state.phase}", state.carried.scale
    arguments = (both, state.carried.slots, *(() if by == 1 else (by,)))
    return code(f"{both} = {{}}", called("advance", *arguments))
