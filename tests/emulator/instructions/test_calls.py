"""printf in kernels, and calls that are not supported."""

from __future__ import annotations

import numpy as np
import pytest

from schedgen.emulator.machine.lanes import EmulationError
from tests.emulator.machine.running import aligned, run, store

VPRINTF = ".extern .func (.param .b32 count) vprintf (.param .b64 format, .param .b64 buffer);"
CALL = """
.local .align 8 .b8 depot[64];
mov.b64 %rd10, depot; cvta.local.u64 %rd11, %rd10;
st.local.b32 [%rd10], %r39; cvt.rn.f64.s32 %fd, %r39; div.rn.f64 %fd, %fd, 0d4000000000000000;
st.local.b64 [%rd10+8], %fd; st.local.b64 [%rd10+16], %rd39; mov.b32 %r1, -7;
st.local.b32 [%rd10+24], %r1; mov.b64 %rd12, 1099511627776; st.local.b64 [%rd10+32], %rd12;
mov.b32 %r2, -1;
setp.lt.u32 %p1, %r39, 2; @!%p1 bra PRINTED;
{{
.param .b64 format; .param .b64 buffer; .param .b32 count;
add.s64 %rd13, %rd39, 16; st.param.b64 [format], %rd13; st.param.b64 [buffer], %rd11;
call.uni (count), vprintf, (format, buffer);
ld.param.b32 %r2, [count];
}}
PRINTED:
"""


def test_printf(capsys: pytest.CaptureFixture[str]) -> None:
    """Lanes print one after the other; arguments lie at multiples of their size."""
    text = b"word\0".ljust(16, b"\0") + b"%d: %5.2f%% of %s, %x and %lld\n\0"
    source = aligned(np.frombuffer(text.ljust(64, b"\0"), np.uint8))
    outcome = run(f".reg .f64 %fd; {CALL.format()} {store('%r2')}", source=source, outside=VPRINTF)
    assert capsys.readouterr().out == "".join(
        f"{lane}: {lane / 2:5.2f}% of word, fffffff9 and {1 << 40}\n" for lane in range(2)
    )
    assert outcome.out.tolist() == [5, 5, *[-1] * 30]


def test_a_format_without_end() -> None:
    source = aligned(np.full(8192, ord("a"), np.uint8))
    with pytest.raises(EmulationError, match="a string of printf has no end within 4096 bytes"):
        run(f".reg .f64 %fd; {CALL.format()}", source=source, outside=VPRINTF)


def test_other_calls_say_what_they_need() -> None:
    with pytest.raises(
        EmulationError, match=r"PTX line \d+: call.uni: call of sm: .*needs a stack"
    ):
        run("call.uni sm;")


def test_an_unknown_instruction_says_what_it_needs() -> None:
    with pytest.raises(EmulationError, match=r"PTX line 14: tex\.2d: .*needs a builder for tex"):
        run("tex.2d %r1, %r2;")
