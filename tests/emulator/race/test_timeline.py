"""What two warps did around a finding, and barriers by their names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from schedgen.emulator.race import sarif
from schedgen.emulator.race.programs import Ended
from schedgen.emulator.race.ptx_launch import run
from schedgen.emulator.race.running import Options, session_of
from schedgen.emulator.race.session import Session
from schedgen.emulator.race.text import data_of, lines_of

SOURCE = """\
def kernel(storage):
    full = storage.full.data_ptr()
    mbarrier_init(full + 0, 32)
    mbarrier_init(full + 1, 32)
    room[t] = t
    mbarrier_arrive(full)
    mbarrier_wait(full)
    result[t] = room[t]
    barrier()
"""
PTX = """.version 8.8
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 result)
{
.reg .b32 %r<8>; .reg .b64 %rd<8>; .reg .pred %p<4>;
.shared .align 16 .b8 room[128];
.shared .align 8 .b8 full[16];
ld.param.u64 %rd1, [result];
mov.u32 %r1, %tid.x;
mov.u32 %r2, full;
setp.ne.u32 %p1, %r1, 0;
@%p1 bra READY;
.loc 1 3 1
mbarrier.init.shared.b64 [%r2], 32;
.loc 1 4 1
mbarrier.init.shared.b64 [%r2+8], 32;
READY:
.loc 1 9 1
bar.sync 0;
and.b32 %r3, %r1, 31;
shl.b32 %r3, %r3, 2;
mov.u32 %r4, room;
add.u32 %r4, %r4, %r3;
setp.ge.u32 %p2, %r1, 32;
@%p2 bra READER;
.loc 1 6 1
EARLY
.loc 1 5 1
st.shared.b32 [%r4], %r1;
.loc 1 6 1
LATE
ret;
READER:
.loc 1 7 1
WAIT:
mbarrier.try_wait.parity.shared.b64 %p3, [%r2], 0;
@!%p3 bra WAIT;
.loc 1 8 1
ld.shared.b32 %r5, [%r4];
cvt.u64.u32 %rd2, %r3;
add.s64 %rd3, %rd1, %rd2;
st.global.b32 [%rd3], %r5;
ret;
}
.file 1 "SOURCE"
"""
ARRIVE = "mbarrier.arrive.shared.b64 _, [%r2];"


def handed_over(
    folder: Path, early: str = ARRIVE, late: str = "", **more: Any
) -> tuple[Session, Ended]:
    """A warp writes and another one reads what it wrote; the arrive comes before the write."""
    source = folder / "kernel.py"
    source.write_text(SOURCE, "utf-8")
    text = PTX.replace("EARLY", early).replace("LATE", late).replace("SOURCE", str(source))
    (folder / "kernel.ptx").write_text(text, "utf-8")
    np.save(folder / "wanted.npy", np.arange(32))
    launch = {
        "grid": [1, 1, 1], "block": [64, 1, 1],
        "tensors": {"result": {"dtype": "int32", "shape": [32], "expect": "wanted.npy"}},
        "parameters": [{"tensor": "result"}],
    }  # fmt: skip
    (folder / "launch.json").write_text(json.dumps(launch), "utf-8")
    options: dict[str, Any] = {"seeds": 2, "pictures": True, **more}
    session = session_of(Options("sm_90a", **options))
    return session, run(folder / "kernel.ptx", folder / "launch.json", session, 4)


def test_right_program_has_none(tmp_path: Path) -> None:
    session, ended = handed_over(tmp_path, "", ARRIVE)
    assert (session.found, ended) == ((), Ended())


def test_timeline_of_a_race(tmp_path: Path) -> None:
    session, ended = handed_over(tmp_path)
    assert ended == Ended()  # executing once more changes nothing
    (found,) = session.errors
    drawn = found.timeline
    assert drawn is not None
    assert drawn.schedule == "round-robin"
    assert drawn.agents == ("warp 0 of CTA 0", "warp 1 of CTA 0")
    words = [(row.column, row.what, row.mark) for row in drawn.rows]
    first = words.index((0, "writes 128 bytes of shared memory", "first"))
    then = words.index((2, "reads 128 bytes of shared memory", "then"))
    assert first < then
    arrive = (0, "arrives on storage.full[0], phase 0", "")
    assert words.index(arrive) < first
    assert (2, "sees that storage.full[0] is complete, phase 0", "") in words[:then]
    places = {row.what: row.place for row in drawn.rows}
    assert places[arrive[1]].text == "mbarrier_arrive(full)"
    assert any(row.barrier == "named barrier 0" for row in drawn.rows)
    assert [snippet.line for snippet in drawn.sources if snippet] == [5, 8]
    assert "st.shared.b32" in dict(drawn.codes[0].lines)[drawn.codes[0].line]


def test_the_same_every_time(tmp_path: Path) -> None:
    one, two = (handed_over(tmp_path)[0].found for _ in range(2))
    assert one == two
    assert handed_over(tmp_path, jobs=2)[0].found == one
    assert all(found.timeline is None for found in handed_over(tmp_path, pictures=False)[0].found)


def test_schedules_that_show_it(tmp_path: Path) -> None:
    session, ended = handed_over(tmp_path)
    (found,) = session.errors
    assert (len(found.shows), found.schedules) == (3, 3)
    text = "\n".join(lines_of(session, ended))
    assert "shows  under all 3 schedules, round-robin among them" in text


def test_barriers_have_names_in_reports(tmp_path: Path) -> None:
    # Nobody waits: arrivals of the second phase come before anybody has seen the first one.
    session, ended = handed_over(tmp_path, f"{ARRIVE}\n{ARRIVE}")
    stop = next(one for one in session.errors if one.rule == "B7")
    assert stop.title.endswith("storage.full[0]")
    (barrier,) = stop.barriers
    assert (barrier.name, barrier.line) == ("storage.full[0]", 3)
    text = "\n".join(lines_of(session, ended))
    where = f"{tmp_path / 'kernel.py'}:3  mbarrier_init(full + 0, 32)"
    assert f"mbar   storage.full[0]: initialized at {where}" in text
    assert (
        data_of(session, ended)["findings"][session.errors.index(stop)]["barriers"][0]["name"]
        == "storage.full[0]"
    )
    result = sarif.log_of(session, tmp_path)["runs"][0]["results"][session.errors.index(stop)]
    assert "Barrier: storage.full[0]" in result["message"]["text"]
    related = result["relatedLocations"]
    assert [one["physicalLocation"]["region"]["startLine"] for one in related][-1] == 3


@pytest.mark.parametrize("jobs", [1, 3])
def test_findings_before_a_stop(tmp_path: Path, jobs: int) -> None:
    late = f"st.shared.b32 [%r4], %r1;\nbar.sync 1, 96;\n{ARRIVE}"
    session, _ = handed_over(tmp_path, ARRIVE, late, jobs=jobs)
    assert [one.rule for one in session.errors] == ["deadlock", "K1"]
    assert session.errors[1].timeline is not None
    assert session.errors[1].shows == ()
