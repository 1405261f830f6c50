"""What is said of a kernel without executing it."""

from __future__ import annotations

from schedgen.emulator.machine.analysis import Analysis
from schedgen.emulator.machine.precedence import ranks
from schedgen.emulator.ptx.parse import parse

PTX = """.version 8.8
.target sm_90a
.address_size 64
.visible .entry k() {
.reg .b32 %r<9>; .reg .b64 %rd<3>; .reg .pred %p<2>;
mov.b32 %r1, 3;
@%p1 bra END;
ld.shared.v2.b32 {%r2, %r1}, [%r3+8];
bar.sync 0;
END: fence.proxy.async;
ret;
}
"""


def test_registers_order_and_synchronization() -> None:
    kernel = parse(PTX).kernels["k"]
    found = Analysis(kernel)
    assert found.uses == {"%r1": 2, "%p1": 1, "%r2": 1, "%r3": 1}
    assert found.synchronization == {9, 10}
    assert found.ranks == ranks(kernel)
