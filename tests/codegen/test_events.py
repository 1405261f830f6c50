"""Kernels with events: the same results, and clocks where the program says."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import torch

from schedgen.codegen.compiling import compile_file
from schedgen.codegen.emit import emit
from schedgen.codegen.errors import EmitError
from schedgen.codegen.event_table import CALIBRATION, HEADER, Event, RoleWords, read_events
from schedgen.codegen.facts import read_facts
from schedgen.program.model import Run, Wait, WaitGroup
from schedgen.program.sequence import sequence
from tests.codegen.examples import ARCHITECTURES, GEMM, solved, text_of
from tests.codegen.recorded import computed, recorded

HOPPER = {"tile_m": "64", "tile_n": "32", "slice_n": "32", "consumers": "1"}
CASES = [("gemm", "h200", HOPPER), ("gemm", "b200", GEMM)]
EXTENTS = {"m": 136, "n": 72, "k": 392}


@pytest.mark.parametrize(("spec", "target", "settings"), CASES)
def test_off_by_default(spec: str, target: str, settings: dict[str, str]) -> None:
    proven, kernel = solved(spec, target, **settings)
    assert emit(proven, kernel) == emit(proven, kernel, events=False)
    assert "event" not in emit(proven, kernel)


@pytest.mark.medium
@pytest.mark.parametrize(("spec", "target", "settings"), CASES)
def test_every_step_that_takes_time(
    spec: str, target: str, settings: dict[str, str], tmp_path: Path
) -> None:
    proven, kernel = solved(spec, target, **settings)
    path = tmp_path / "kernel.py"
    path.write_text(emit(proven, kernel, events=True), "utf-8")
    table = read_events(path)
    assert table.spec_sha256 == kernel.spec_sha256
    for role in proven.program.roles:
        wanted: list[str] = []
        for step in role.steps:
            if isinstance(step.action, Run | WaitGroup):
                wanted.append(step.action.operation)
            elif isinstance(step.action, Wait):
                wanted.append(step.action.barrier)
        assert [event.name for event in table.events if event.role == role.name] == wanted
    assert [p.name for p in read_facts(path).tensors][-1] == "event_words"
    assert "%clock" in compile_file(path, tmp_path / "built", sms=132).ptx.read_text("utf-8")


def _clocks(words: list[int], role: RoleWords, events: list[Event], trips: int) -> list[int]:
    """The clocks of one tile, in the order in which the program says that they are written."""
    assert words[0] == trips
    found: list[int] = []
    at = 1
    sections = [("before", 0), *(("loop", t) for t in range(trips + role.shifts)), ("after", 0)]
    for section, turn in sections:
        for event in (event for event in events if event.section == section):
            begin, end = words[at + event.begin], words[at + event.end]
            runs = section != "loop" or 0 <= turn - event.shift < trips
            if not runs:
                assert begin == end == 0
            found += [begin, end] if begin and end else []
        at += getattr(role, section)
    assert at == len(words)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("spec", "target", "settings"), CASES)
@pytest.mark.parametrize("block", [0, 1])
def test_same_results_and_a_clock_for_each_step(
    spec: str, target: str, settings: dict[str, str], block: int
) -> None:
    made = recorded(spec, target, settings, EXTENTS, block=block)
    assert made.races == 0
    plain = computed(spec, target, settings, EXTENTS)
    assert all(torch.equal(output, plain[name]) for name, output in made.outputs.items())
    proven, _ = solved(spec, target, **settings)
    for role in made.table.roles:
        words = made.words[role.role]
        calibration = words[:CALIBRATION]
        assert 0 < calibration[0] <= calibration[-1]
        trips = words[CALIBRATION]
        size = role.of_tile(trips)
        tiles = (len(words) - CALIBRATION) // size
        assert tiles > 1
        assert len(words) == CALIBRATION + tiles * size
        events = [event for event in made.table.events if event.role == role.role]
        program = proven.program.role[role.role]
        for tile in range(tiles):
            mine = words[CALIBRATION + tile * size : CALIBRATION + (tile + 1) * size]
            clocks = _clocks(mine, role, events, trips)
            assert clocks == sorted(clocks)
            timed = [
                one
                for one in sequence(program, [trips])
                if isinstance(one.step.action, Run | Wait | WaitGroup)
            ]
            assert len(clocks) == 2 * len(timed)


@pytest.mark.medium
@pytest.mark.parametrize(("spec", "target", "settings"), CASES)
def test_only_the_chosen_block_writes(spec: str, target: str, settings: dict[str, str]) -> None:
    made = recorded(spec, target, settings, EXTENTS, block=99)
    assert not any(made.raw[HEADER:])  # no block has this number


@pytest.mark.medium
def test_nothing_is_written_beyond_the_room() -> None:
    spec, target, settings = CASES[0]
    whole = recorded(spec, target, settings, EXTENTS)
    room = max(map(len, whole.words.values())) // 2
    made = recorded(spec, target, settings, EXTENTS, room=room)
    for number, role in enumerate(made.table.roles):
        mine = _written(made.raw[HEADER + number * room : HEADER + (number + 1) * room])
        wanted = _written(whole.words[role.role])
        count = max(mine) + 1  # whole sections, as long as there is room for the largest one
        assert mine == {place for place in wanted if place < count}
        largest = max(1 + role.before, role.loop, role.after)
        assert max(wanted) < count or room - count <= 2 * largest


def _written(words: list[int]) -> set[int]:
    return {place for place, word in enumerate(words) if word}


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "kernel.py"
    path.write_text(text_of("gemm", "h200", **HOPPER), "utf-8")
    with pytest.raises(EmitError, match=r"records nothing; emit it with 'schedgen emit --events'"):
        read_events(path)
    path.write_text("def", "utf-8")
    with pytest.raises(EmitError, match="this is not Python"):
        read_events(path)
    text = emit(*solved("gemm", "h200", **HOPPER), events=True)
    assert ast.parse(text)
    path.write_text(text.replace('("load", "loop", "wait"', '("loop", "wait"'), "utf-8")
    with pytest.raises(EmitError, match="the table of events is damaged"):
        read_events(path)


@pytest.mark.slow
@pytest.mark.parametrize("target", ARCHITECTURES)
@pytest.mark.parametrize("spec", ["attention_fwd", "gemm_chain", "gemm_epilogue", "gemm_symmetric"])
def test_shipped_specs_compile_with_events(spec: str, target: str, tmp_path: Path) -> None:
    path = tmp_path / "kernel.py"
    path.write_text(emit(*solved(spec, target), events=True), "utf-8")
    built = compile_file(path, tmp_path / "built", sms=132)
    assert built.ptx.read_text("utf-8").count("%clock") > len(read_events(path).events)


@pytest.mark.slow
@pytest.mark.parametrize("target", ARCHITECTURES)
def test_attention_computes_the_same_bits_with_events(target: str) -> None:
    extents = {"seq_q": 264, "seq_k": 264, "heads": 1}
    made = recorded("attention_fwd", target, {}, extents)
    assert made.races == 0
    plain = computed("attention_fwd", target, {}, extents)
    assert all(torch.equal(output, plain[name]) for name, output in made.outputs.items())
    assert all(len(words) > CALIBRATION for words in made.words.values())
