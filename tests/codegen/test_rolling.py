"""Statements that repeat become loops, and only those."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from schedgen.codegen.ir import Stage, code
from schedgen.codegen.printing import lines_of
from schedgen.codegen.rolling import rolled
from schedgen.codegen.running import Running
from schedgen.codegen.source import Source
from schedgen.codegen.terms import terms_of
from schedgen.program.operations import Number


def loops(source: Source, **parameters: str) -> list[str]:
    return lines_of(rolled(terms_of(source.nodes), parameters))


def slices(numbers: range, first: str = "f({}, t)") -> Source:
    source = Source()
    for n in numbers:
        source.comment(f"EPI[{n},0]")
        source.add(first.format(32 * n), f"g({7 - n})")
    return source


def test_loop() -> None:
    """Integers are multiples of the counter if they can be; Python knows all of them."""
    wanted = ["    # EPI[i,0]", "    f(32 * i, t)", "    g(7 - i)"]
    assert loops(slices(range(4))) == ["for i in cutlass.range_constexpr(4):", *wanted]
    assert loops(slices(range(3, 8))) == ["for i in cutlass.range_constexpr(3, 8):", *wanted]


def test_what_is_computed_stays_the_same() -> None:
    """A loop that Python executes makes the same calls, nested ones too."""
    source = Source()
    for n in range(6):
        for m in range(4):
            source.add(f"f({10 * n + 3 * m}, {2 * n + 9 - m})", f"g({n})", "h()")
        source.add(f"k({n})", "k(0)")
    lines = loops(source)
    assert len(lines) == 7
    assert calls(lines) == calls(source.lines)


def calls(lines: list[str]) -> list[tuple[str, tuple[int, ...]]]:
    """The calls that lines make."""
    found: list[tuple[str, tuple[int, ...]]] = []

    def noted(name: str) -> Callable[..., None]:
        def note(*arguments: int) -> None:
            found.append((name, arguments))

        return note

    cutlass = SimpleNamespace(range_constexpr=range)
    exec("\n".join(lines), {"cutlass": cutlass} | {name: noted(name) for name in "fghk"})
    return found


def test_running_numbers_go_round_their_ring() -> None:
    source = Source()
    for n in range(8):
        number = Running(Number(8, n - 4, per_tile=True), 4, None)
        source.add(code("f({})", Stage(number)), f"g({n})")
    assert loops(source) == [
        "for i in cutlass.range_constexpr(8):",
        "    f(slot(8 * t + (i + 4), 4))",
        "    g(i)",
    ]


@pytest.mark.parametrize(
    "lines",
    [
        ["f(0)", "f(1)", "f(3)"],  # no progression
        ["f(0)", "g(0)", "f(1)", "g(1)"],  # nothing is saved
        ["f(a)", "f(b)", "f(c)", "f(d)"],  # variables from outside
        ["x = f(0)", "g(x)", "x = f(1)", "g(x)", "x = f(2)", "g(x)", "h(x)"],  # used behind it
        ["x = 0", "x = f(x, 0)", "x = f(x, 1)", "x = f(x, 2)", "x = f(x, 3)"],  # and before
        ["x_0 = f(0)", "x_1 = f(1)", "x_2 = f(2)", "x_3 = f(3)", "h(x_2)"],
    ],
)
def test_what_is_no_loop(lines: list[str]) -> None:
    source = Source()
    source.add(*lines, "end(0)")
    assert loops(source) == source.lines


def test_two_turns_have_to_save_more() -> None:
    assert len(loops(slices(range(2)))) == 6
    source = Source()
    for n in range(2):
        source.add(f"f({n})", f"g({n})", "h()", "a()", "b()", "c()")
    assert loops(source)[0] == "for i in cutlass.range_constexpr(2):"


def test_variables_of_a_turn() -> None:
    """What only one turn uses has one name in all of them, that of nothing else."""
    source = Source()
    for n in range(3):
        source.add(f"a_{n} = f({n})", f"g(a_{n})", f"h(a_{n}, a)")
    assert loops(source) == [
        "for i in cutlass.range_constexpr(3):",
        "    a_3 = f(i)",
        "    g(a_3)",
        "    h(a_3, a)",
    ]


def test_counters_are_new() -> None:
    """Not what the role calls something, nor the counter of a loop around."""
    source = Source()
    source.add("i = 1")
    for n in range(3):
        with source.block("if x:"):
            for m in range(3):
                source.add(f"f(i, {3 * n + m})", f"g({m})")
    lines = loops(source)
    assert lines[1] == "for j in cutlass.range_constexpr(3):"
    assert lines[3] == "        for k in cutlass.range_constexpr(3):"
    assert lines[4] == "            f(i, 3 * j + k)"


def test_comments_stay_with_what_they_are_about() -> None:
    source = Source()
    source.add("f(0)", "g(0)")
    for n in range(1, 5):
        source.comment(f"number {n}")
        source.add(f"f({n})", f"g({n})")
    lines = loops(source)
    assert lines[2:4] == ["for i in cutlass.range_constexpr(1, 5):", "    # number i"]
