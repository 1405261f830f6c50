"""PTX files with the description of a launch, and what is reported of them."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from schedgen.emulator.ptx.parse import parse
from schedgen.emulator.race import baseline, junit, sarif
from schedgen.emulator.race.programs import Ended
from schedgen.emulator.race.ptx_launch import run
from schedgen.emulator.race.running import Options, session_of
from schedgen.emulator.race.session import Limit, Session
from schedgen.emulator.race.text import data_of, lines_of, unsupported_lines
from schedgen.emulator.race.unsupported import unsupported
from schedgen.errors import SchedgenError, SpecError
from tests.emulator.race.kernels import LAUNCH, PTX, write

OPTIONS = Options("sm_90a", seeds=1)


def ran(folder: Path, barrier: str = "bar.sync 0;", **more: Any) -> tuple[Session, Ended]:
    np.save(folder / "wanted.npy", np.arange(63, -1, -1, dtype=np.float32))
    ptx, description = write(folder, barrier)
    session = session_of(Options("sm_90a", seeds=1, **more))
    return session, run(ptx, description, session, 4)


def test_clean_and_right(tmp_path: Path) -> None:
    session, ended = ran(tmp_path)
    assert ended == Ended()
    assert session.found == ()
    assert list(lines_of(session, ended))[-1] == "1 launch of 1 kernel: clean"
    assert data_of(session, ended)["launches"][0]["grid"] == [1, 1, 1]


def test_other_result_than_expected(tmp_path: Path) -> None:
    np.save(tmp_path / "wanted.npy", np.zeros(64))
    session = session_of(OPTIONS)
    ended = run(*write(tmp_path), session, 4)
    assert ended.status == 1
    assert ended.error == (
        "result: 63 of 64 elements differ from wanted.npy; element 0 is 63, expected 0"
    )


def test_race_is_one_finding(tmp_path: Path) -> None:
    session, _ = ran(tmp_path, "")
    (found,) = session.errors
    assert found.rule == "K1"
    assert {place.instruction.split()[0] for place in found.places} == {
        "st.shared.b32", "ld.shared.b32",
    }  # fmt: skip
    text = "\n".join(lines_of(session, Ended(), quiet=True))
    assert "error[K1]: race" in text
    assert "usual  let the first warp arrive" in text
    assert "cute.arch.barrier" in text


def test_known_findings(tmp_path: Path) -> None:
    session, _ = ran(tmp_path, "")
    path = tmp_path / "known.json"
    path.write_text(baseline.text_of(session.found), "utf-8")
    known = baseline.read(path)
    # Lines elsewhere change, and with them the numbers of all lines behind.
    again, ended = ran(tmp_path, "mov.u32 %r6, 0;\n\n", known=known)
    assert again.errors == ()
    assert list(lines_of(again, ended))[-1].endswith("clean, 1 known finding")
    results = sarif.log_of(again, tmp_path)["runs"][0]["results"]
    assert [one["suppressions"][0]["kind"] for one in results] == ["external"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "no JSON"),
        ("[]", "it has no 'schedgen_race_baseline'"),
        ('{"schedgen_race_baseline": 2}', "is 2, this schedgen reads 1"),
        ('{"schedgen_race_baseline": 1}', "'known' is no list"),
        ('{"schedgen_race_baseline": 1, "known": [{}]}', r"known\[0\] has no 'fingerprint'"),
    ],
)
def test_broken_baseline(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "known.json"
    path.write_text(text, "utf-8")
    with pytest.raises(SchedgenError, match=problem):
        baseline.read(path)
    with pytest.raises(SchedgenError, match="No such file"):
        baseline.read(tmp_path / "none.json")


def test_sarif_and_junit(tmp_path: Path) -> None:
    session, ended = ran(tmp_path, "")
    log = sarif.log_of(session, tmp_path)
    assert log["version"] == "2.1.0"
    (single,) = log["runs"]
    (result,) = single["results"]
    assert single["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "K1"
    assert result["level"] == "error"
    assert "Usual repair" in result["message"]["text"]
    json.dumps(log)
    suite = ElementTree.fromstring(junit.text_of(session, ended, "kernel.ptx").encode())
    # Its results are right where warps run side by side.
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert failure.get("message") == "1 findings (K1)"


def test_deadlock_is_a_finding(tmp_path: Path) -> None:
    session, ended = ran(tmp_path, "bar.sync 0, 96;")
    assert ended.status == 1
    (found,) = session.errors
    assert found.rule == "deadlock"
    assert "waits for" in found.needs
    assert not session.launches[0].ended


def test_limit(tmp_path: Path) -> None:
    _, ended = ran(tmp_path, limit=Limit(seconds=0.0))
    assert ended.limited


def edited(**changes: Any) -> dict[str, Any]:
    """The description with other values at places such as ``tensors.source.dtype``."""
    made = copy.deepcopy(LAUNCH)
    for place, value in changes.items():
        *path, last = place.split("__")
        at: Any = made
        for key in path:
            at = at[int(key) if key.isdecimal() else key]
        at[int(last) if last.isdecimal() else last] = value
    return made


@pytest.mark.parametrize(
    ("changes", "problem", "fix"),
    [
        ({"kernel": "revers"}, "has no kernel 'revers'", "it has reverse"),
        ({"gird": [1, 1, 1]}, "'gird' is no key", "did you mean 'grid'?"),
        ({"grid": [0, 1, 1]}, "grid.0 is 0", "greater than or equal to 1"),
        ({"block": [64]}, "'block.1' is missing", "add"),
        ({"tensors__source__dtype": "f32"}, "tensors.source.dtype is 'f32'", "input should be"),
        ({"tensors__source__shap": [1]}, "'tensors.source.shap' is no key", "'shape'"),
        ({"tensors__source__file": "no.npy"}, "no.npy cannot be read", "beside the launch"),
        ({"parameters__0": {"tensor": "sorce"}}, "no tensor 'sorce'", "did you mean 'source'?"),
        ({"parameters__2": {"value": 1}}, "parameters.2 is", "belong together"),
        ({"parameters__2": {"dtype": "int64", "value": 1}}, "has 8 bytes, last has 4", "dtype"),
        ({"parameters__2": {"bytes": "zz"}}, "is not hexadecimal", "two digits"),
        ({"parameters": []}, "0 parameters, the kernel has 3", "8, 8, 4 bytes"),
        (
            {"parameters__0": {"tensor_map": "source", "box": [2, 2]}},
            "the box has 2 dimensions, the tensor 1",
            "each dimension",
        ),
    ],
)
def test_broken_description(
    tmp_path: Path, changes: dict[str, Any], problem: str, fix: str
) -> None:
    ptx, description = write(tmp_path, launch=edited(**changes))
    with pytest.raises(SpecError) as caught:
        run(ptx, description, session_of(OPTIONS), 4)
    text = str(caught.value)
    assert f"{description}:" in text
    assert problem in text
    assert fix in text.partition("fix: ")[2]


def test_unsupported_instructions() -> None:
    text = PTX.replace(
        "BARRIER", "bar.sync 0;\ntex.1d.v4.s32.s32 {%r6, %r6, %r6, %r6}, [room, {%r1}];"
    )
    found = unsupported(parse(text, "kernel.ptx"))
    assert [(one.kernel, one.instruction, one.times) for one in found] == [
        ("reverse", "tex.1d.v4.s32.s32", 1)
    ]
    lines = list(unsupported_lines(found, 1, None))
    assert "PTX 22" in lines[1]
    assert "needs a builder for tex" in lines[2]
    assert lines[-1] == "1 kernel: 1 kind of instructions not supported"
    assert unsupported(parse(PTX.replace("BARRIER", ""), "kernel.ptx")) == ()
