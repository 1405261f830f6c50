"""Loops choose among variables that differ in an index."""

from __future__ import annotations

import pytest

from schedgen.codegen.source import Source
from tests.codegen.test_rolling import loops


def tensors(*names: str) -> dict[str, str]:
    return dict.fromkeys(names, "cute.Tensor")


def test_parameters_and_variables() -> None:
    source = Source()
    source.add(*(f"r_{n} = make(32)" for n in range(4)))
    for n in range(4):
        source.add(f"f(r_{n}, s_{n})", f"g(r_{n})")
    assert loops(source, **tensors("s_0", "s_1", "s_2", "s_3")) == [
        "s = (s_0, s_1, s_2, s_3)",
        "r = [make(32) for _ in range(4)]",
        "for i in cutlass.range_constexpr(4):",
        "    f(r[i], s[i])",
        "    g(r[i])",
    ]


def test_several_by_one_line() -> None:
    """They may be made of others, and of integers in progression."""
    source = Source()
    source.add(*(f"s_LB_{n}, t_LB_{n} = cut(sB_{n}, {8 * n + 1})" for n in range(3)))
    with source.block("while tile < tiles:"):
        for n in range(3):
            source.add(f"copy(s_LB_{n}, t_LB_{n}[8])", f"g({n})")
    assert loops(source, **tensors("sB_0", "sB_1", "sB_2")) == [
        "sB = (sB_0, sB_1, sB_2)",
        "s_LB, t_LB = zip(*[cut(sB[i], 8 * i + 1) for i in range(3)])",
        "while tile < tiles:",
        "    for i in cutlass.range_constexpr(3):",
        "        copy(s_LB[i], t_LB[i][8])",
        "        g(i)",
    ]


def test_the_first_may_have_any_index() -> None:
    source = Source()
    for n in range(1, 5):
        source.add(f"f(s_{n}, {n})", f"g({n})")
    assert loops(source, **tensors("s_1", "s_2", "s_3", "s_4"))[:3] == [
        "s = (s_1, s_2, s_3, s_4)",
        "for i in cutlass.range_constexpr(1, 5):",
        "    f(s[i - 1], i)",
    ]


@pytest.mark.parametrize(
    "lines",
    [
        ["f(r_0)", "g(r_1)", "h(r_2, r_3)"],  # no loop chooses
        [*(f"f(r_{n})" for n in range(4)), "r_2 = 1"],  # made twice
    ],
)
def test_what_no_loop_needs(lines: list[str]) -> None:
    source = Source()
    source.add(*(f"r_{n} = make(32)" for n in range(4)), *lines)
    assert loops(source) == source.lines


def test_names_are_new() -> None:
    source = Source()
    source.add("r = 1", *(f"r_{n} = make(32)" for n in range(4)))
    for n in range(4):
        source.add(f"f(r, r_{n})", f"g({n})")
    lines = loops(source)
    assert lines[1] == "r_4 = [make(32) for _ in range(4)]"
    assert lines[3] == "    f(r, r_4[i])"


def test_other_types_are_no_family() -> None:
    source = Source()
    for n in range(3):
        source.add(f"f(s_{n}, {n})", "g()")
    kinds = tensors("s_0", "s_1") | {"s_2": "cute.Pointer"}
    assert loops(source, **kinds) == source.lines
