"""Nodes as lines of Python: the only place where they become text."""

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
    LibraryFunction,
    Line,
    Loop,
    Name,
    Node,
    Phase,
    Stage,
    Uses,
    Value,
    Wait,
    WaitGroup,
    inside,
)
from schedgen.codegen.running import Carried, Iteration, PipelineState, carried

WIDTH = 100
"""Columns of a line."""

_COMMIT_GROUP = {
    "bulk": "cute.arch.cp_async_bulk_commit_group()",
    "wgmma": "warpgroup.commit_group()",
}
_WAIT_GROUP = {
    "bulk": "cute.arch.cp_async_bulk_wait_group({}, read=True)",
    "wgmma": "warpgroup.wait_group({})",
}

States = Mapping[Carried, PipelineState]


def text_of(nodes: Iterable[Node]) -> str:
    """Nodes as a text."""
    return "\n".join(lines_of(nodes)) + "\n"


def lines_of(nodes: Iterable[Node], depth: int = 0) -> list[str]:
    """Nodes as lines, indented ``depth`` times."""
    return list(_nodes(nodes, depth, {}))


def expression(code: Code, states: States | None = None) -> str:
    """Code as text; ``states`` are carried by the loop around it."""
    known = states or {}
    return "".join(p if isinstance(p, str) else _value(p, known) for p in code.parts)


def _value(value: Value, states: States) -> str:
    match value:
        case Name(text) | LibraryFunction(text):
            return text
        case Iteration():
            return value.text
        case Stage(number):
            found = carried(number, states)
            if found is None:
                return f"slot({number.text}, {number.slots})"
            return states[found[0]].stage
        case Phase(number):
            found = carried(number, states)
            if found is None:
                return f"phase({number.text}, {number.slots})"
            phase = states[found[0]].phase
            return f"1 - {phase}" if found[1] % 2 else phase


def _nodes(nodes: Iterable[Node], depth: int, states: States) -> Iterator[str]:
    for node in nodes:
        yield from _node(node, depth, states)


def _node(node: Node, depth: int, states: States) -> Iterator[str]:
    margin = "    " * depth

    def text(code: Code) -> str:
        return expression(code, states)

    match node:
        case Line(code) | Fence(code=code):
            line = text(code)
            yield margin + line if line else ""
        case Call(head, arguments, end):
            found = _call(text(head), [*map(text, arguments)], end, WIDTH - 4 * depth)
            yield from (margin + line for line in found)
        case Comment(words):
            yield f"{margin}# {words}"
        case Uses():
            pass
        case Block(head, body):
            yield from _block(text(head), body, depth, states)
        case Guarded(terms, body):
            head = f"if {' and '.join(map(text, terms))}:"
            yield from _block(head, body, depth, states)
        case Loop():
            yield from _loop(node, depth)
        case Wait(address, phase):
            yield f"{margin}cute.arch.mbarrier_wait({text(address)}, {text(phase)})"
        case Arrive(address, elected, size):
            more = "" if size is None else f", {text(size)}"
            name = "mbarrier_arrive" + ("" if size is None else "_and_expect_tx")
            yield from _elected(f"cute.arch.{name}({text(address)}{more})", margin, elected)
        case Commit(address):
            yield from _elected(f"tcgen05.commit({text(address)})", margin, elected=True)
        case CommitGroup(queue):
            yield margin + _COMMIT_GROUP[queue]
        case WaitGroup(queue, pending):
            yield margin + _WAIT_GROUP[queue].format(pending)
        case Issue(operation, label, body):
            yield f"{margin}# {operation}" + (f": {label}" if label else "")
            yield from _nodes(body, depth, states)
        case Function(decorator, name, parameters, body):
            yield margin + decorator
            given = [f"{parameter}: {kind}" for parameter, kind in parameters]
            head = _call(f"def {name}", given, ":", WIDTH - 4 * depth)
            yield from (margin + line for line in head)
            yield from _nodes(body, depth + 1, {})


def _block(head: str, body: tuple[Node, ...], depth: int, states: States) -> Iterator[str]:
    yield "    " * depth + head
    yield from _nodes(body, depth + 1, states)
    if not any(map(_acts, body)):
        yield "    " * (depth + 1) + "pass"


def _acts(node: Node) -> bool:
    """Whether it is a statement."""
    match node:
        case Comment() | Uses():
            return False
        case Line(code):
            return bool(code.parts)
        case Issue():
            return any(map(_acts, inside(node)))
        case _:
            return True


def _loop(loop: Loop, depth: int) -> Iterator[str]:
    margin, states = "    " * depth, {state.carried: state for state in loop.states}
    yield from (margin + state.begin(loop.first) for state in loop.states)
    begin = f"{loop.first}, " if loop.first else ""
    yield f"{margin}for turn in cutlass.range({begin}trips, unroll=1):"
    yield from _nodes(loop.body, depth + 1, states)
    yield from (f"{margin}    {state.advance}" for state in loop.states)
    yield from _nodes(loop.last, depth + 1, states)


def _elected(line: str, margin: str, elected: bool) -> Iterator[str]:
    if elected:
        yield margin + "with cute.arch.elect_one():"
        margin += "    "
    yield margin + line


def _call(function: str, arguments: list[str], end: str, room: int) -> list[str]:
    """A call, on one line if it fits, else with its arguments below it."""
    inline = ", ".join(arguments)
    if len(f"{function}({inline}){end}") <= room:
        return [f"{function}({inline}){end}"]
    if len(inline) + 4 <= room:
        return [f"{function}(", f"    {inline}", f"){end}"]
    return [f"{function}(", *(f"    {argument}," for argument in arguments), f"){end}"]
