"""The simplest schedule that shows a finding, and its execution from a file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from schedgen.emulator.machine.replay import WARP, Agent, Delay, Early, Schedule
from schedgen.emulator.race import schedules
from schedgen.emulator.race.programs import Ended
from schedgen.emulator.race.ptx_launch import run
from schedgen.emulator.race.running import Options, session_of
from schedgen.emulator.race.schedules import Kept
from schedgen.emulator.race.session import Session
from schedgen.emulator.race.text import data_of, lines_of
from schedgen.errors import SchedgenError

PTX = """.version 8.8
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 result)
{
.reg .b32 %r<8>; .reg .b64 %rd<8>; .reg .pred %p<4>;
.shared .align 16 .b8 room[128];
.shared .align 8 .b8 full[8];
ld.param.u64 %rd1, [result];
mov.u32 %r1, %tid.x;
mov.u32 %r2, full;
setp.ne.u32 %p1, %r1, 0;
@!%p1 mbarrier.init.shared.b64 [%r2], 32;
bar.sync 0;
and.b32 %r3, %r1, 31;
shl.b32 %r3, %r3, 2;
mov.u32 %r4, room;
add.u32 %r4, %r4, %r3;
setp.lt.u32 %p2, %r1, 32;
@%p2 bra READER;
st.shared.b32 [%r4], %r1;
mbarrier.arrive.shared.b64 _, [%r2];
ret;
READER:
mbarrier.test_wait.parity.shared.b64 %p3, [%r2], 0;
ld.shared.b32 %r5, [%r4];
cvt.u64.u32 %rd2, %r3;
add.s64 %rd3, %rd1, %rd2;
st.global.b32 [%rd3], %r5;
ret;
}
"""
"""The reader asks once if the writer is done, and reads whatever it hears."""
LAUNCH = {
    "grid": [1, 1, 1], "block": [64, 1, 1],
    "tensors": {"result": {"dtype": "int32", "shape": [32]}},
    "parameters": [{"tensor": "result"}],
}  # fmt: skip


def ran(folder: Path, text: str = PTX, **more: Any) -> tuple[Session, Ended]:
    (folder / "kernel.ptx").write_text(text, "utf-8")
    (folder / "launch.json").write_text(json.dumps(LAUNCH), "utf-8")
    options: dict[str, Any] = {"seeds": 6, **more}
    session = session_of(Options("sm_90a", **options))
    return session, run(folder / "kernel.ptx", folder / "launch.json", session, 4)


def test_one_delay_shows_it(tmp_path: Path) -> None:
    """The warp that comes last to the barrier goes on first: it has to be the reader."""
    session, ended = ran(tmp_path)
    found = next(one for one in session.errors if one.rule == "K1")
    assert not any(name == "round-robin" for name in found.shows)
    assert found.schedule is not None
    (delay,) = found.schedule.deviations
    assert isinstance(delay, Delay)
    assert (delay.agent, delay.until) == (Agent(0), Agent(1))
    assert found.schedule == replace(Schedule(), deviations=(delay,))
    text = "\n".join(lines_of(session, ended))
    assert "  if     warp 0 of CTA 0 is held back before PTX line 9" in text
    assert "until warp 1 of CTA 0 has come to PTX line 14; all else is round-robin" in text
    data = next(one for one in data_of(session, ended)["findings"] if one["rule"] == "K1")
    assert data["schedule"]["delays"][0]["agent"] == [0, WARP, 0]


def test_replay_finds_the_same(tmp_path: Path) -> None:
    session, _ = ran(tmp_path)
    kept = [
        Kept(one.fingerprint, one.launch, one.kernel, one.schedule)
        for one in session.errors
        if one.schedule is not None
    ]
    path = tmp_path / "schedules.json"
    path.write_text(schedules.text_of(kept), "utf-8")
    assert schedules.read(path) == tuple(kept)
    again, ended = ran(tmp_path, replay=schedules.read(path), shrink=0.0)
    assert {one.fingerprint for one in again.errors} >= {one.finding for one in kept}
    assert again.emulator.schedules == len({one.schedule for one in kept})
    assert all(one.how == "" for one in again.errors)
    assert "the schedule of" in "\n".join(lines_of(again, ended))
    other, _ = ran(tmp_path, replay=(replace(kept[0], launch=2),), shrink=0.0)
    assert other.errors == ()  # round-robin alone


def test_the_same_each_time_and_in_each_number_of_processes(tmp_path: Path) -> None:
    found = [ran(tmp_path, jobs=jobs)[0].found for jobs in (1, 1, 2)]
    assert found[0] == found[1] == found[2]


def test_no_time(tmp_path: Path) -> None:
    session, _ = ran(tmp_path, shrink=0.0)
    assert all(one.schedule is None or one.schedule.plain for one in session.errors)


def test_a_stop_is_shrunk_too(tmp_path: Path) -> None:
    text = PTX.replace("ld.shared.b32 %r5", "@%p3 bar.sync 3, 96;\nld.shared.b32 %r5")
    session, _ = ran(tmp_path, text, schedule="random")
    stop = session.errors[0]
    assert stop.rule == "deadlock"
    assert stop.schedule is not None
    assert len(stop.schedule.deviations) <= 1
    plain, _ = ran(tmp_path, text.replace("@%p3 bar", "bar"))
    assert plain.errors[0].how == schedules.ROUND_ROBIN


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "no JSON"),
        ("[]", "it has no 'schedgen_race_schedules'"),
        ('{"schedgen_race_schedules": 2}', "is 2, this schedgen reads 1"),
        ('{"schedgen_race_schedules": 1}', "'schedules' is no list"),
        ('{"schedgen_race_schedules": 1, "schedules": [{}]}', r"schedules\[0\]: KeyError"),
        (
            '{"schedgen_race_schedules": 1, "schedules": [{"finding": "a", "launch": 1, "kernel": '
            '"k", "schedule": {"quantum": 0, "clusters": 1, "delays": [], "early": []}}]}',
            "quantum and clusters are 1 or more",
        ),
    ],
)
def test_broken_file(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "schedules.json"
    path.write_text(text, "utf-8")
    with pytest.raises(SchedgenError, match=problem):
        schedules.read(path)
    with pytest.raises(SchedgenError, match="No such file"):
        schedules.read(tmp_path / "none.json")


def test_a_file_has_all_of_a_schedule(tmp_path: Path) -> None:
    delay = Delay(Agent(1, 20, 3), 0, Agent(2), 4)
    kept = Kept("id", 3, "k", Schedule(64, 2, (delay, Early(1, 2, 3))))
    path = tmp_path / "schedules.json"
    path.write_text(schedules.text_of([kept]), "utf-8")
    assert schedules.read(path) == (kept,)
