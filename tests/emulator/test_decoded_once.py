"""Launches of one kernel share what was decoded of it."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import pytest

from schedgen.emulator.launch.capture import Parameters
from schedgen.emulator.machine.program import Program, Stretch
from tests.emulator.test_emulation import PTX, RIGHT, Run


def test_launches_of_one_kernel_share_what_was_decoded() -> None:
    """With other parameters, and what was executed is told of each launch."""
    ptx = PTX.replace("st.shared.b32 [%r3], %r1;", "ld.param.b32 %r8, [more];\n"
        "setp.ne.s32 %p3, %r8, 0; add.s32 %r9, %r1, %r8;\n"
        "@%p3 fence.proxy.async;\nst.shared.b32 [%r3], %r9;",
    ).replace(".param .u64 out", ".param .u64 out, .param .u32 more")  # fmt: skip
    run = Run(ptx)
    value = ctypes.c_uint32(0)
    pointers = (ctypes.c_void_p * 2)(
        ctypes.addressof(run._address),  # pyright: ignore[reportPrivateUsage]
        ctypes.addressof(value),
    )
    run.launch = replace(run.launch, parameters=Parameters(ctypes.addressof(pointers)))
    for more in (5, 0, 7):
        value.value = more
        run()
        assert run.out.tolist() == [one + more for one in RIGHT]
    first, second, third = (len(r.statistics.executed) for r in run.emulator.reports)
    assert (second, third) == (first - 1, first)


def test_stretches_of_a_kernel_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    decode = Program._decoded_now  # pyright: ignore[reportPrivateUsage]

    def noted(self: Program, start: int) -> Stretch:
        made.append(start)
        return decode(self, start)

    monkeypatch.setattr(Program, "_decoded_now", noted)
    run = Run(PTX + "// made once")
    run()
    first = len(made)
    run()
    assert first == len(set(made)) == len(made)
    one, other = run.emulator.reports
    assert one.statistics == other.statistics
