"""Constants of whole launches in the files of machine models."""

from __future__ import annotations

import pytest

from schedgen.errors import SpecError
from schedgen.machine import Machine
from schedgen.machine_file import machine_from, machine_text, read_machine
from schedgen.spec.source import parse_source

TEXT = machine_text("h200")
HEAD = TEXT[: TEXT.index("\nlaunches:\n")]
ONE = "\nlaunches:\n  launch: {value: 7, unit: cycle, source: a test, certainty: estimate}\n"


def machine(text: str) -> Machine:
    return machine_from(parse_source(text, "mine.yaml"))


def test_launches_are_constants() -> None:
    assert machine(HEAD + ONE).value("launch") == 7
    assert "launch" not in read_machine("b200").constant


def test_schedules_do_not_depend_on_launches() -> None:
    """So the digest by which they name their model is that of the rest of the file."""
    assert machine(TEXT).sha256 == machine(HEAD + ONE).sha256 == machine(HEAD).sha256
    changed = HEAD.replace("value: 8.69,", "value: 8.7,")
    assert changed != HEAD
    assert machine(changed + ONE).sha256 == machine(changed).sha256 != machine(HEAD).sha256


def test_launches_that_are_not_the_last_section_count() -> None:
    before = HEAD.replace("\nrules:\n", f"{ONE}\nrules:\n")
    assert machine(before).sha256 not in (machine(HEAD).sha256, machine(HEAD + ONE).sha256)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("  launch: {", "  wait: {", r"error\[duplicate-name\]: 'wait' is a constant already"),
        ("value: 7", "low: 7, high: 6", r"error\[empty-interval\]: low 7 is above high 6"),
        (
            "    hold: tma_issue\n",
            "    hold: launch\n",
            r"error\[unknown-name\]: 'launch' is neither",
        ),
    ],
)
def test_mistakes(old: str, new: str, message: str) -> None:
    text = HEAD + ONE
    assert old in text
    with pytest.raises(SpecError, match=rf"mine.yaml:\d+:\d+: {message}"):
        machine(text.replace(old, new))
