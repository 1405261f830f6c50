"""Lines of generated Python."""

from __future__ import annotations

from schedgen.codegen.source import WIDTH, Source


def test_calls_fit_the_page() -> None:
    source = Source(1)
    for count in (2, 8, 40):
        source.call("function", [f"argument{n}" for n in range(count)], end=":")
    assert all(len(line) <= WIDTH for line in source.lines)
    text = "\n".join(source.lines)
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


def test_words_are_those_of_the_code() -> None:
    source = Source()
    source.add("a[b] = c  # d")
    assert source.words() == {"a", "b", "c"}
