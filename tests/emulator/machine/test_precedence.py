"""The order in which divergent lanes run."""

from __future__ import annotations

from schedgen.emulator.machine.precedence import ranks
from schedgen.emulator.ptx.parse import parse


def order(text: str) -> list[str]:
    """The labels of a kernel in the order of their instructions' ranks."""
    module = parse(
        f".version 8.8\n.target sm_100a\n.address_size 64\n.visible .entry k() {{"
        f".reg .pred %p; .reg .b32 %r;\n{text}\nret; }}"
    )
    kernel = module.kernels["k"]
    places = ranks(kernel)
    assert sorted(places) == list(range(len(kernel.body) + 1))
    return sorted(kernel.labels, key=lambda label: places[kernel.labels[label]])


def test_text_order_where_nothing_else_matters() -> None:
    assert order("@%p bra B; A: add.s32 %r, %r, 1; bra C; B: add.s32 %r, %r, 2; C:") in (
        ["A", "B", "C"],
        ["B", "A", "C"],
    )


def test_a_block_behind_the_end_comes_before_its_successor() -> None:
    text = "@%p bra RARE; NEXT: add.s32 %r, %r, 1; ret; RARE: add.s32 %r, %r, 2; bra NEXT;"
    assert order(text) == ["RARE", "NEXT"]


def test_what_follows_a_loop_comes_after_its_body_wherever_it_stands() -> None:
    text = "bra HEAD; EXIT: ret; HEAD: @%p bra EXIT; BODY: add.s32 %r, %r, 1; bra HEAD;"
    assert order(text) == ["HEAD", "BODY", "EXIT"]


def test_nested_loops_are_contiguous() -> None:
    text = """
        OUTER: add.s32 %r, %r, 1;
        INNER: @%p bra REST; add.s32 %r, %r, 1; bra INNER;
        REST: @%p bra OUTER;
        END: add.s32 %r, %r, 1;"""
    assert order(text) == ["OUTER", "INNER", "REST", "END"]


def test_a_loop_with_two_entries() -> None:
    text = "@%p bra B; A: add.s32 %r, %r, 1; B: @%p bra A; END: add.s32 %r, %r, 1;"
    assert order(text)[-1] == "END"
