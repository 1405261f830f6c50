"""Launches that are kept and run again with memory of their own."""

from __future__ import annotations

import ctypes
import pickle
from dataclasses import replace

import numpy as np
import pytest

from schedgen.emulator.emulation import Emulator
from schedgen.emulator.launch.capture import Allocation, Launch, Parameters
from schedgen.emulator.launch.recording import Pointer, Recording, Replay, record
from schedgen.emulator.launch.targets import target
from schedgen.emulator.machine.lanes import EmulationError

PTX = """.version 8.8
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 add, .param .align 8 .b8 where[16])
{
.reg .b32 %r<9>; .reg .b64 %rd<9>;
ld.param.b32 %r1, [add];
ld.param.b64 %rd1, [where];
ld.param.b64 %rd2, [where+8];
mov.u32 %r2, %tid.x;
mul.wide.u32 %rd3, %r2, 4;
add.s64 %rd4, %rd1, %rd3;
ld.global.b32 %r3, [%rd4];
add.s32 %r4, %r3, %r1;
add.s64 %rd5, %rd2, %rd3;
st.global.b32 [%rd5], %r4;
ret;
}
"""
"""``out[4 + i] = in[i] + add``: the struct has the address of ``in`` and one inside of ``out``."""


def recorded() -> Recording:
    source, out = np.arange(32, dtype=np.uint32), np.zeros(36, np.uint32)
    add = ctypes.c_uint32(7)
    where = (ctypes.c_uint64 * 2)(source.ctypes.data, out.ctypes.data + 16)
    pointers = (ctypes.c_void_p * 2)(ctypes.addressof(add), ctypes.addressof(where))
    memory = [Allocation(one.ctypes.data, one.nbytes, n) for one, n in ((source, "in"), (out, "o"))]
    launch = Launch(
        "k", (1, 1, 1), (32, 1, 1), (1, 1, 1), 0, PTX, target("sm_90a", 1),
        tuple(sorted(memory, key=lambda one: one.start)), {},
        Parameters(ctypes.addressof(pointers)),
    )  # fmt: skip
    found = record(launch, (4, 16))
    source[:] = 0  # nothing refers to this memory any more
    return found


def numbers(replay: Replay, recording: Recording) -> list[int]:
    at = next(n for n, one in enumerate(recording.memory) if one.name == "o")
    return np.frombuffer(replay.content()[at], np.uint32).tolist()


WANTED = [0, 0, 0, 0, *range(7, 39)]


def test_replay_in_another_process() -> None:
    recording = pickle.loads(pickle.dumps(recorded()))
    replay = Replay(recording)
    Emulator().run(replay.launch)
    assert numbers(replay, recording) == WANTED


def test_reset() -> None:
    recording = recorded()
    replay = Replay(recording)
    for _ in range(2):
        assert numbers(replay, recording) == [0] * 36
        Emulator().run(replay.launch)
        assert numbers(replay, recording) == WANTED
        replay.reset()


def test_pointers() -> None:
    recording = recorded()
    names = [one.name for one in recording.memory]
    assert recording.pointers == (
        Pointer(1, 0, names.index("in"), 0),
        Pointer(1, 8, names.index("o"), 16),
    )
    places = sorted((one.start % 4096, one.size) for one in Replay(recording).launch.allocations)
    assert places == sorted((one.skip, len(one.content)) for one in recording.memory)


def test_a_pointer_that_was_not_found_is_an_error() -> None:
    recording = replace(recorded(), pointers=())
    with pytest.raises(EmulationError, match="in no registered tensor"):
        Emulator().run(Replay(recording).launch)
