"""Copies to left operands of 8 bits in registers: they stay, and cost what they move."""

from __future__ import annotations

import pytest

from schedgen.codegen.fragment import WGMMA
from schedgen.driver.binding import kernels_of
from schedgen.exchanges import exchanges, kept_as_results, left_in_registers, order_of_results
from schedgen.kernel import Kernel
from schedgen.machine import price
from schedgen.machine_file import read_machine
from schedgen.spec.reader import read_spec

EXCHANGING = "attention_fp8 v_layout=dk tiles=2"


def kernel(words: str, target: str) -> Kernel:
    """Of a spec and settings."""
    spec, *settings = words.split()
    given = dict(one.split("=") for one in settings)
    return kernels_of(read_spec(spec), read_machine(target), given)[0]


@pytest.mark.parametrize(
    ("spec", "target", "stay"),
    [
        (EXCHANGING, "h200", ["STP[0]", "STP[1]"]),
        ("attention_fp8", "h200", []),  # a product takes P as threads have it
        ("attention_fp8", "b200", []),  # P is in tensor memory
        ("attention_fwd", "h200", []),  # 16 bits lie as results do
        ("gemm_fp8", "h200", []),  # in shared memory
    ],
)
def test_what_stays(spec: str, target: str, stay: list[str]) -> None:
    one = kernel(spec, target)
    assert [o.name for o in one.operations if exchanges(one, o)] == stay
    left = left_in_registers(one.operations, one.piece, one.region)
    assert left == {o.replace("STP", "P") for o in stay}


def test_price() -> None:
    """64 x 128 bytes are 2048 words: a shuffle of each takes 64 cycles at 128 bytes per cycle, and
    two instructions 64 at 64 lanes.
    """
    one, machine = kernel(EXCHANGING, "h200"), read_machine("h200")
    rates = dict(price(one.operation["STP[0]"], machine).rates)
    assert rates["SMEM"] == 64
    assert rates["ALU"] == 64
    assert rates["ISSUE"] == 2048 * 2 / 128 + 8192 / 512


def left(thread: int, v: int) -> tuple[int, int]:
    """Row of eight, and column, of byte v of a left operand (PTX ISA, fragments of wgmma)."""
    return v // 4 % 2, 4 * (thread % 4) + v % 4 + 16 * (v // 8)


def result(thread: int, v: int) -> tuple[int, int]:
    """The same of element v of a result."""
    names = {"thread": thread, "v": v}
    return eval(WGMMA.row, names), eval(WGMMA.element_column, names)


def permuted(one: int, other: int, selector: int) -> int:
    """``prmt`` (PTX ISA)."""
    found = (one | other << 32).to_bytes(8, "little")
    return int.from_bytes(bytes(found[selector >> 4 * n & 7] for n in range(4)), "little")


def test_exchange_of_bytes() -> None:
    """What ``exchange_bytes`` of the library does, written out for the threads of a row: each byte
    is 32 rows + columns, and arrives where a left operand has that row and column.
    """
    words = [
        [
            int.from_bytes(bytes(32 * r + c for r, c in places), "little")
            for places in ([result(t, 4 * w + n) for n in range(4)] for w in range(4))
        ]
        for t in range(4)
    ]
    for t in range(4):
        sender, found = t % 2 * 2 + t // 2, list[int]()
        for v in (0, 2):
            sent = [
                (there, here) if s % 2 else (here, there)
                for s, (here, there) in enumerate((w[v], w[v + 1]) for w in words)
            ]
            one, other = sent[sender][0], sent[sender ^ 1][1]
            low, high = (0x5410, 0x7632) if t < 2 else (0x1054, 0x3276)
            found += [permuted(one, other, low), permuted(one, other, high)]
        got = b"".join(word.to_bytes(4, "little") for word in found)
        assert [divmod(byte, 32) for byte in got] == [left(t, v) for v in range(16)]


def test_order_of_results() -> None:
    """Bytes of a thread are those that it has as results, four of a row after the other."""
    order = order_of_results(32)
    for thread in range(4):
        mine = [result(thread, v) for v in range(16)]
        lies = [mine[v % 2 + v // 2 % 2 * 4 + v // 4 % 2 * 2 + v // 8 * 8] for v in range(16)]
        wanted = [left(thread, v) for v in range(16)]
        assert [row for row, _ in lies] == [row for row, _ in wanted]
        assert [column for _, column in lies] == [order[column] for _, column in wanted]


def test_kept_as_results() -> None:
    one = kernel("attention_fp8", "h200")
    assert kept_as_results(one) == {"rP[0]", "rP[1]", "rP[2]"}
    assert not kept_as_results(kernel("attention_fp8", "b200"))
