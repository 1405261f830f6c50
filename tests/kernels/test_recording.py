"""Recording kernels with events: what is kept, what is refused; on a GPU, that it works."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from schedgen import read_machine, read_spec
from schedgen.codegen.event_table import CALIBRATION, HEADER, EventTable, RoleWords, read_events
from schedgen.codegen.facts import read_facts
from schedgen.driver.emitting import emission
from schedgen.errors import SchedgenError
from schedgen.kernels import recording
from schedgen.kernels.library import named
from schedgen.visualize.measured import compare
from schedgen.visualize.record import read_record

SPEC = "gemm_chain"


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kernel with events, and the same without them beside it."""
    folder = tmp_path_factory.mktemp("events")
    for events in (True, False):
        made = emission(read_spec(SPEC), read_machine("h200"), {}, events=events)
        (folder / made.name).write_text(made.text, "utf-8")
    return folder / "gemm_chain_sm_90a_events.py"


def test_whole_tiles_of_each_role() -> None:
    roles = RoleWords("one", 1, 2, 0, 1), RoleWords("other", 0, 0, 3, 0)
    table = EventTable("", roles, ())
    clocks = list(range(1, CALIBRATION + 1))
    one = [*clocks, 2, *range(7), 1, *range(5), 0, 0, 0]
    other = [*clocks, 2, -1, -2, -3, 1, 4, 5, 6]
    room = max(len(one), len(other))
    words = [0, room, *one, *[0] * (room - len(one)), *other, *[0] * (room - len(other))]
    assert len(words) == HEADER + 2 * room
    found = recording.split(words, table, 1)
    assert found["one"] == [*clocks, 2, *range(7)]
    assert found["other"] == [*clocks, 2, (1 << 32) - 1, (1 << 32) - 2, (1 << 32) - 3]
    assert recording.split(words, table, 9)["one"] == one[:-3]


@pytest.mark.medium
def test_without_a_gpu(
    kernel: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    output = tmp_path / "record.json"
    assert recording.main([str(kernel), "-o", str(output)]) == 1
    assert "recording needs a GPU, and torch finds none; fix: " in capsys.readouterr().err
    assert not output.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--extent", "m"], "--extent m: write NAME=NUMBER"),
        (["--scalar", "alpha=x"], "--scalar alpha=x: write NAME=NUMBER"),
    ],
)
def test_bad_arguments(
    kernel: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert recording.main([str(kernel), "-o", "unused.json", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_kernels_without_events(kernel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain = kernel.with_name("gemm_chain_sm_90a.py")
    assert recording.main([str(plain), "-o", "unused.json"]) == 2
    assert "emit it with 'schedgen emit --events'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("extents", "message"),
    [
        ({"m": 64}, "extent 'batch' is not given; fix: give --extent NAME=SIZE for each of"),
        (
            {"batch": 1, "m": 64, "n": 64, "depth": 64, "width": 64, "x": 1},
            "extent 'x' is none of this kernel",
        ),
    ],
)
def test_extents(kernel: Path, extents: dict[str, int], message: str) -> None:
    with pytest.raises(SchedgenError, match=message):
        recording.inputs(read_facts(kernel), extents, torch.device("cpu"))


def test_tensors(kernel: Path) -> None:
    sizes = {"batch": 1, "m": 64, "n": 60, "depth": 64, "width": 64}
    found = recording.inputs(read_facts(kernel), sizes, torch.device("cpu"))
    assert list(found) == ["a", "b", "c", "d"]  # and not the one for events
    assert found["b"].shape == (1, 60, 64)
    assert found["a"].any()
    assert not found["d"].any()


def test_nothing_is_awaited_that_nobody_counts() -> None:
    """A kernel that follows another one would wait for ever by itself."""
    facts = read_facts(named("attention_bwd_convert_sm_90a_bf16_follows.py"))
    sizes = {"batch": 1, "heads": 3, "seq_q": 70, "head_dim": 64}
    found = recording.inputs(facts, sizes, torch.device("cpu"))
    assert facts.follows == "done"
    assert (found["done"] >= 1 << 30).all()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_on_a_gpu(kernel: Path, tmp_path: Path) -> None:
    made = emission(read_spec(SPEC), read_machine("h200"), {}, events=True)
    schedule = made.solution.schedule
    sizes = {"batch": 1, "m": 8192, "n": 2048, "depth": 128, "width": 128}
    data = recording.record(kernel, sizes, plain=kernel.with_name("gemm_chain_sm_90a.py"))
    assert data["same_result"]
    assert read_events(kernel).spec_sha256 == data["spec_sha256"]
    comparison = compare(read_record(json.dumps(data)), schedule)
    assert {row.name for row in comparison.rows if row.kind == "operation"} >= {
        op.id for op in schedule.ops
    }
    assert all(0 < cycles < 100 for cycles in comparison.record.overhead.values())
