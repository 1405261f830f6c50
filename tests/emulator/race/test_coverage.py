"""Synchronization that no run executed, with its place in the source."""

from __future__ import annotations

from pathlib import Path

import pytest

from schedgen.emulator.ptx.parse import parse
from schedgen.emulator.ptx.synchronization import synchronizes, waits
from schedgen.emulator.race.programs import Ended
from schedgen.emulator.race.session import Session
from schedgen.emulator.race.text import data_of, lines_of
from tests.emulator.race.kernels import PTX
from tests.emulator.race.test_ptx_launch import ran

GUARDED = """setp.gt.u32 %p1, %r1, 1000;
setp.lt.u32 %p2, %r1, 1000;
.loc 1 10 2
bar.sync 0;
.loc 1 11 2
@%p1 fence.proxy.async;
@%p2 fence.proxy.async;
.loc 1 20 2
.loc 1 30 2, function_name $L__info_string0, inlined_at 1 20 2
@%p2 bra BEHIND;
fence.acq_rel.gpu;
bar.sync 1;
BEHIND:"""


def session_of(
    folder: Path, monkeypatch: pytest.MonkeyPatch, barrier: str = GUARDED, **more: int
) -> tuple[Session, Ended]:
    text = PTX.replace(".reg .b32 %r<8>;", ".reg .b32 %r<8>; .reg .pred %p<3>;")
    text += '.file 1 "kernel.py"\n.section .debug_str\n{\n$L__info_string0:\n.b8 0\n}\n'
    monkeypatch.setattr("tests.emulator.race.kernels.PTX", text)
    return ran(folder, barrier, **more)


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_was_not_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: int) -> None:
    session, ended = session_of(tmp_path, monkeypatch, jobs=jobs)
    assert ended == Ended()
    gaps = session.coverage.unexecuted()
    assert [(gap.place.name, gap.instruction, len(gap.lines), gap.of) for gap in gaps] == [
        ("kernel.py:11", "fence.proxy.async", 1, 2),
        ("kernel.py:30", "fence.acq_rel.gpu", 1, 1),
        ("kernel.py:30", "bar.sync", 1, 1),
    ]
    assert [call.name for call in gaps[1].place.calls] == ["kernel.py:20"]
    assert session.coverage.instructions == 5
    lines = list(lines_of(session, ended, unexecuted=True))
    assert "never executed, so not checked: 3 of 5 synchronization instructions" in lines
    assert "    fence.acq_rel.gpu: never executed in 1 launch of reverse" in lines
    assert (
        "    fence.proxy.async: 1 of the 2 that it became never executed in 1 launch of reverse"
        in (lines)
    )
    assert "    called at kernel.py:20  " in lines
    short = list(lines_of(session, ended))
    assert [line for line in short if "(all: --unexecuted)" in line]
    assert len(short) < len(lines)
    data = data_of(session, ended)["synchronization"]
    assert (data["instructions"], len(data["unexecuted"])) == (5, 3)
    assert session.errors == ()


def test_all_was_executed(tmp_path: Path) -> None:
    session, ended = ran(tmp_path)
    assert session.coverage.unexecuted() == ()
    assert not [line for line in lines_of(session, ended) if "never executed" in line]
    assert session.coverage.unblocked() == ()  # one of its two warps is the first


def test_waits_that_never_waited(tmp_path: Path) -> None:
    session, _ = ran(tmp_path, "bar.sync 0;\ncp.async.wait_all;")
    assert [gap.instruction for gap in session.coverage.unblocked()] == ["cp.async.wait_all"]


@pytest.mark.parametrize(
    ("text", "orders", "blocks"),
    [
        ("bar.sync 0;", True, True),
        ("barrier.cluster.arrive.aligned;", True, False),
        ("barrier.cluster.wait.aligned;", True, True),
        ("mbarrier.arrive.shared.b64 _, [%rd1];", True, False),
        ("mbarrier.try_wait.parity.shared.b64 %p1, [%rd1], 0;", True, True),
        ("fence.proxy.async;", True, False),
        ("wgmma.wait_group.sync.aligned 0;", True, True),
        ("wgmma.fence.sync.aligned;", True, False),
        ("wgmma.commit_group.sync.aligned;", True, False),
        ("bar.warp.sync 0xffffffff;", True, False),
        ("cp.async.bulk.commit_group;", True, False),
        ("st.release.gpu.global.b32 [%rd1], %r1;", True, False),
        ("griddepcontrol.wait;", True, False),
        ("ld.global.b32 %r1, [%rd1];", False, False),
        (
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
            "[%r1], [%rd1], 16, [%r2];",
            False,
            False,
        ),
    ],
)
def test_what_synchronizes(text: str, orders: bool, blocks: bool) -> None:
    kernel = parse(
        ".version 8.8\n.target sm_90a\n.address_size 64\n.entry k() {\n"
        f".reg .b32 %r<3>; .reg .b64 %rd<3>; .reg .pred %p<3>;\n{text}\nret;\n}}\n"
    ).kernels["k"]
    assert synchronizes(kernel.body[0]) == orders
    assert waits(kernel.body[0]) == blocks
