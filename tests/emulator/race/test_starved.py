"""One more schedule for kernels with waits that nobody repeats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from schedgen.emulator.race import schedules
from schedgen.emulator.race.programs import Ended
from schedgen.emulator.race.ptx_launch import run
from schedgen.emulator.race.running import Options, session_of
from schedgen.emulator.race.schedules import Kept
from schedgen.emulator.race.session import Session
from schedgen.emulator.race.text import data_of, lines_of

PTX = """.version 8.8
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 source, .param .u64 result)
{
.reg .b32 %r<8>; .reg .b64 %rd<8>; .reg .pred %p<5>;
.shared .align 128 .b8 room[256];
.shared .align 8 .b8 full[16];
ld.param.u64 %rd1, [source];
ld.param.u64 %rd2, [result];
mov.u32 %r1, %tid.x;
setp.ne.u32 %p1, %r1, 0;
@!%p1 mbarrier.init.shared.b64 [full], 1;
@!%p1 mbarrier.init.shared.b64 [full+8], 1;
bar.sync 0;
setp.lt.u32 %p2, %r1, 32;
@%p2 bra READER;
elect.sync %r2|%p3, -1;
@!%p3 bra END;
mbarrier.arrive.expect_tx.shared.b64 _, [full], 128;
cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [room], [%rd1], 128, [full];
mbarrier.arrive.expect_tx.shared.b64 _, [full+8], 128;
cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [room+128], [%rd1], 128, [full+8];
bra END;
READER:
SECOND:
mbarrier.try_wait.parity.shared.b64 %p4, [full+8], 0;
@!%p4 bra SECOND;
FIRST:
mbarrier.try_wait.parity.shared.b64 %p4, [full], 0;
REPEATED
mov.u32 %r3, room;
shl.b32 %r4, %r1, 2;
add.u32 %r5, %r3, %r4;
ld.shared.b32 %r6, [%r5];
cvt.u64.u32 %rd3, %r4;
add.s64 %rd3, %rd2, %rd3;
st.global.b32 [%rd3], %r6;
END:
LAST:
mbarrier.try_wait.parity.shared.b64 %p4, [full], 0;
@!%p4 bra LAST;
ret;
}
"""
"""Warp 0 waits for the second of two copies, then for the first one, which it reads."""
LOOP = "@!%p4 bra FIRST;"
LAUNCH = {
    "grid": [1, 1, 1], "block": [64, 1, 1],
    "tensors": {
        "source": {"dtype": "int32", "shape": [32], "fill": "arange"},
        "result": {"dtype": "int32", "shape": [33]},
    },
    "parameters": [{"tensor": "source"}, {"tensor": "result"}],
}  # fmt: skip
STARVED = "what waits without a loop wait for comes last"


def ran(folder: Path, repeated: str = "", text: str = PTX, **more: Any) -> tuple[Session, Ended]:
    (folder / "kernel.ptx").write_text(text.replace("REPEATED", repeated), "utf-8")
    (folder / "launch.json").write_text(json.dumps(LAUNCH), "utf-8")
    session = session_of(Options("sm_90a", **more))
    return session, run(folder / "kernel.ptx", folder / "launch.json", session, 4)


def test_only_this_schedule_shows_it(tmp_path: Path) -> None:
    session, ended = ran(tmp_path)
    (found,) = session.errors
    assert {place.instruction.partition(".")[0] for place in found.places} == {"ld", "cp"}
    assert (found.shows, found.schedules) == ((STARVED,), 5)
    text = "\n".join(lines_of(session, ended))
    assert f"  shows  under 1 of 5 schedules: {STARVED}\n" in text
    assert "turns end before PTX line 20, PTX line 30" in text
    (data,) = data_of(session, ended)["findings"]
    assert data["schedules"] == 5
    assert data["schedule"]["stops"]


def test_what_all_schedules_show(tmp_path: Path) -> None:
    both_write = PTX.replace("LAST:\n", "st.global.b32 [%rd2+128], %r1;\nLAST:\n")
    session, ended = ran(tmp_path, text=both_write)
    found = next(one for one in session.errors if one.rule == "K1")
    assert (len(found.shows), found.schedules) == (5, 5)
    text = "\n".join(lines_of(session, ended))
    assert "  shows  under all 5 schedules, round-robin among them\n" in text


def test_number_of_processes(tmp_path: Path) -> None:
    found = [ran(tmp_path, jobs=jobs)[0].found for jobs in (1, 2)]
    assert found[0] == found[1]


def test_executed_again(tmp_path: Path) -> None:
    session, _ = ran(tmp_path)
    (found,) = session.errors
    assert found.schedule is not None
    path = tmp_path / "schedules.json"
    kept = Kept(found.fingerprint, found.launch, found.kernel, found.schedule)
    path.write_text(schedules.text_of([kept]), "utf-8")
    assert schedules.read(path) == (kept,)
    again, _ = ran(tmp_path, replay=schedules.read(path), shrink=0.0)
    assert [one.fingerprint for one in again.errors] == [found.fingerprint]
    assert again.errors[0].schedules == 2


def test_its_timeline(tmp_path: Path) -> None:
    session, _ = ran(tmp_path, pictures=True, shrink=0.0)
    (found,) = session.errors
    assert found.timeline is not None
    assert found.timeline.schedule == STARVED


@pytest.mark.parametrize(
    ("repeated", "schedule", "count"),
    [
        (LOOP, "adversarial", 3),
        ("", "random", 3),
        ("", "round-robin", 0),
    ],
)
def test_otherwise_there_are_the_same_schedules_as_ever(
    tmp_path: Path, repeated: str, schedule: str, count: int
) -> None:
    session, ended = ran(tmp_path, repeated, schedule=schedule)
    assert ended == Ended()
    assert session.emulator.count == count
    assert session.errors == () or schedule == "random"  # which may show it
