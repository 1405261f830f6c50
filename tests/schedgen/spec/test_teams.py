"""Roles whose output tiles several warpgroups compute in turn, as a spec says it."""

from __future__ import annotations

import pytest

from schedgen.errors import SpecError
from schedgen.kernel import Kernel
from schedgen.spec.bind import bind
from schedgen.spec.reader import parse_spec, read_spec

TEXT = read_spec("gemm").source.text
TEAMS = "teams: {epilogue: teams}"


def kernel(*changes: tuple[str, str], **settings: str) -> Kernel:
    text = TEXT
    for old, new in changes:
        assert text.count(old) == 1
        text = text.replace(old, new)
    spec = parse_spec(text)
    return bind(spec.source, spec.file, "h200", settings)[0]


def test_one_team_is_none() -> None:
    assert kernel().teams == ()
    assert kernel(teams="2").teams == (("epilogue", 2),)


def test_all_rows_are_of_one_role() -> None:
    roles = {operation.role for operation in kernel(teams="2").operations if operation.role}
    assert roles == {"epilogue"}
    assert {o.role for o in kernel().operations if o.role} == {"epilogue0", "epilogue1"}


@pytest.mark.parametrize(
    ("changes", "message", "fix"),
    [
        ([(TEAMS, "teams: {epilogue: 5}")], "epilogue has 5 teams; 1 to 4", "use 2"),
        ([(TEAMS, "teams: {epilog: 2}")], "no operation has the role 'epilog'", "epilogue"),
        ([(TEAMS, "teams: {mma: 2}")], "no operation has the role 'mma'", "say 'role: mma'"),
        (
            [(TEAMS, f"{TEAMS}\n  tile_trips: ceil((tile_row + 1) * tile_m / tile_k)")],
            "may have different numbers of iterations",
            "remove 'teams' or 'tile_trips'",
        ),
        ([("persistent: true", "persistent: false")], "a CTA has one", "claim: fixed"),
        ([("persistent: true", "claim: launch")], "a CTA has one", "claim: fixed"),
        ([("persistent: true", "claim: dynamic")], "every other tile", "claim: fixed"),
        (
            [
                ("role: epilogue,", ""),
                ("d: acc, accumulate: true}", "d: acc, accumulate: true, role: epilogue}"),
            ],
            "has nothing to do after the loop",
            "give an operation behind the loop that role",
        ),
    ],
)
def test_mistakes(changes: list[tuple[str, str]], message: str, fix: str) -> None:
    with pytest.raises(SpecError) as caught:
        kernel(*changes, teams="2")
    text = str(caught.value)
    assert "bad-teams" in text
    assert message in text
    assert fix in text
