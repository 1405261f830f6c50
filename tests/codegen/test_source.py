"""Lines of generated Python."""

from __future__ import annotations

from schedgen.codegen.ir import Issue, Line, code, functions
from schedgen.codegen.printing import lines_of
from schedgen.codegen.source import WIDTH, Source


def test_calls_fit_the_page() -> None:
    source = Source()
    for count in (2, 8, 40):
        source.call("function", [f"argument{n}" for n in range(count)], end=":")
    lines = lines_of(source.nodes, 1)
    assert all(len(line) <= WIDTH for line in lines)
    text = "\n".join(lines)
    assert text.startswith(
        "    function(argument0, argument1):\n    function(\n        argument0, "
    )
    assert "\n        argument39,\n    ):" in text


def test_blocks_are_never_empty() -> None:
    source = Source()
    with source.block("if x:"):
        source.comment("nothing to do")
    with source.block("if y:"):
        source.add("z = 1", "")
    assert source.lines == ["if x:", "    # nothing to do", "    pass", "if y:", "    z = 1", ""]


def test_what_is_inside() -> None:
    """Blocks inside of blocks; nothing is guarded without a condition."""
    source = Source()
    with source.issue("MMA[0]", "tensor"), source.guarded([code("a"), code("b")]):
        source.add("c()")
    with source.guarded([]):
        source.add("d()")
    assert source.lines == ["# MMA[0]: tensor", "if a and b:", "    c()", "d()"]
    assert [type(node) for node in source.nodes] == [Issue, Line]


def test_functions_of_plain_text() -> None:
    source = Source()
    source.uses("twice")
    source.uses()
    source.add("x = twice(y)  # gelu(z)")
    assert functions(source.nodes) == {"twice"}
    assert source.lines == ["x = twice(y)  # gelu(z)"]
