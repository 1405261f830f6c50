"""Programs as sequences, files and text."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from schedgen.program.file import ProgramFileError, read_program, to_json
from schedgen.program.model import FIRST, LAST, Guard, Run, Step, When
from schedgen.program.operations import Number
from schedgen.program.sequence import sequence
from schedgen.synchronize.pace import gains, pace
from schedgen.synchronize.text import program_text
from tests.schedgen.program.examples import gemm


@pytest.mark.parametrize("trips", [0, 1, 2, 3, 7])
def test_each_iteration_runs_once_whatever_the_trip_count(trips: int) -> None:
    role = replace(
        gemm().role["tensor"],
        loop=(Step(Run("late"), 2), Step(Run("MMA")), Step(Run("once"), 1, LAST)),
    )
    found = [(i.step.action, i.iteration) for i in sequence(role, [trips])]
    assert [i for a, i in found if a == Run("MMA")] == list(range(trips))
    assert [i for a, i in found if a == Run("late")] == list(range(trips))
    assert [i for a, i in found if a == Run("once")] == [max(trips, 1) - 1]


def test_iterations_are_counted_over_tiles() -> None:
    role = gemm().role["load"]
    numbers = [
        i.number(Number())
        for i in sequence(role, [2, 0, 3])
        if i.step.action == Run("LA", "sA full", Number(), 16384)
    ]
    assert numbers == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("guard", "trips", "expected"),
    [
        (Guard(When.EVERY, 1, 0), 3, [1, 2]),
        (Guard(When.EVERY, 0, 1), 3, [0, 1]),
        (FIRST, 0, [0]),
        (Guard(When.FIRST, 2), 1, []),
        (LAST, 3, [2]),
    ],
)
def test_guards(guard: Guard, trips: int, expected: list[int]) -> None:
    assert [i for i in range(-1, 5) if guard.holds(i, trips)] == expected


# -- files -----------------------------------------------------------------------------------------


def test_a_program_survives_its_file() -> None:
    program = gemm()
    text = to_json(program)
    assert read_program(text) == program
    assert to_json(read_program(text)) == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not JSON"),
        ("[]", "not a program"),
        ('{"program_format": 99}', "program format 99"),
        ('{"program_format": 5}', "kernel"),
    ],
)
def test_damaged_files_are_named(text: str, words: str) -> None:
    with pytest.raises(ProgramFileError, match=words):
        read_program(text, "p.json")


def test_the_damaged_field_is_named() -> None:
    data = json.loads(to_json(gemm()))
    data["roles"][0]["loop"][0]["action"]["number"]["scale"] = "one"
    with pytest.raises(ProgramFileError, match=r"roles.0.loop.0.action.*scale"):
        read_program(json.dumps(data))


# -- text ------------------------------------------------------------------------------------------


def test_text_names_every_step_and_barrier() -> None:
    program = gemm()
    text = program_text(program)
    for barrier in program.barriers:
        assert f"  {barrier.name} " in text
    assert "wait sA empty[c-3]" in text
    assert "expect sA full[c] x 1, 16384 bytes" in text
    assert "last        commit acc full[t]" in text


# -- pace ------------------------------------------------------------------------------------------


def test_pace_is_the_slowest_cycle() -> None:
    # MMA is busy 128 cycles an iteration; one slot leaves load and product one after the other.
    assert pace(gemm(8), "low").cycles == 128
    one = pace(gemm(1), "high")
    assert one.cycles == pytest.approx(900 + 300)
    assert any("LA" in name for name in one.cycle)


def test_gains_name_what_helps() -> None:
    found = {gain.what: gain.cycles for gain in gains(gemm(1))}
    assert found["one more stage behind sA empty"] == pytest.approx(600)
    assert found["LA a tenth shorter"] == pytest.approx(810 + 300)
    assert "EPI a tenth shorter" not in found
