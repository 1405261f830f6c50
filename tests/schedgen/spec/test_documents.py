"""Files of several specs."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from schedgen.errors import SchedgenError, SpecError
from schedgen.spec.plan import read_plan
from schedgen.spec.reader import find_source, is_plan, place_of, read_spec, shipped_plans
from schedgen.spec.source import read_sources

ROOT = Path(__file__).parents[3]
MLP = ROOT / "docs" / "examples" / "mlp.yaml"
TWO = "# both\n---\nkernel: one\n--- # the other\nkernel: two\n"


def written(folder: Path, text: str) -> Path:
    path = folder / "several.yaml"
    path.write_text(text, "utf-8")
    return path


def test_lines_are_those_of_the_file(tmp_path: Path) -> None:
    first, second = read_sources(written(tmp_path, TWO))
    assert (first.file, second.file) == tuple(
        f"{tmp_path / 'several.yaml'}#{name}" for name in ("one", "two")
    )
    assert [s.locate(("kernel",)).line for s in (first, second)] == [3, 5]
    assert second.line(5) == "kernel: two"
    shown = second.diagnostic("rule", "message", ("kernel",)).render()
    assert shown.startswith(f"{tmp_path / 'several.yaml'}:5:9: error[rule]")


def test_a_document_is_told_by_its_own_text(tmp_path: Path) -> None:
    """What is in front of it, and how many lines that are, is not part of it."""
    before = [s.sha256 for s in read_sources(written(tmp_path, TWO))]
    after = [s.sha256 for s in read_sources(written(tmp_path, f"\n{TWO.replace('one', 'uno')}"))]
    assert (before[0] == after[0], before[1] == after[1]) == (False, True)


@pytest.mark.parametrize(
    "text", ["kernel: one\n", "---\nkernel: one\n", "# a\n---\nkernel: one\n---\n# b\n"]
)
def test_one_spec_is_as_ever(tmp_path: Path, text: str) -> None:
    path = written(tmp_path, text)
    (found,) = read_sources(path)
    assert found.file == str(path)
    assert found.data == {"kernel": "one"}
    assert found.sha256 == sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    ("text", "rule", "line"),
    [
        ("kernel: one\n---\nabout: no name\n", "spec-without-name", 3),
        ("kernel: one\n---\nkernel: one\n", "repeated-name", 3),
        ("kernel: one\n---\nkernel: [\n", "yaml-unclosed", 3),
        ("---\n---\n", "yaml-empty", 1),
    ],
)
def test_mistakes(tmp_path: Path, text: str, rule: str, line: int) -> None:
    with pytest.raises(SpecError) as caught:
        read_sources(written(tmp_path, text))
    (found,) = caught.value.diagnostics
    assert found.rule == rule
    assert found.location is None or found.location.line == line


def test_the_plan_is_meant_where_no_name_is(tmp_path: Path) -> None:
    assert is_plan(find_source(str(MLP)))
    assert read_plan(str(MLP)).file.plan == "mlp"
    assert read_spec(f"{MLP}#product").file.kernel == "product"
    with pytest.raises(SpecError, match="this is a plan of several kernels"):
        read_spec(str(MLP))
    with pytest.raises(SchedgenError, match="no spec 'produkt'; did you mean 'product'"):
        read_spec(f"{MLP}#produkt")
    with pytest.raises(
        SchedgenError, match=r"has the specs one, two; fix: name one, such as .*#one"
    ):
        find_source(str(written(tmp_path, TWO)))
    with pytest.raises(SchedgenError, match="gemm is a kernel, not a plan of several"):
        read_plan("gemm")


def test_a_path_may_have_the_sign(tmp_path: Path) -> None:
    path = tmp_path / "a#b.yaml"
    path.write_text("kernel: one\n", "utf-8")
    assert place_of(str(path)) == (str(path), "")
    assert place_of(f"{tmp_path}/x.yaml#b") == (f"{tmp_path}/x.yaml", "b")
    assert place_of("gemm") == ("gemm", "")


def test_shipped_plans_are_right() -> None:
    assert shipped_plans()
    for name in shipped_plans():
        assert read_plan(name).file.plan == name


def test_lines_end_as_on_windows(tmp_path: Path) -> None:
    """Also behind a long comment, and with a mark of the order of bytes."""
    text = "# a comment\n" * 40 + TWO
    path = tmp_path / "several.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    first, second = read_sources(path)
    assert [s.locate(("kernel",)).line for s in (first, second)] == [43, 45]
    assert second.data == {"kernel": "two"}


def test_marks_are_lines(tmp_path: Path) -> None:
    """Not in a text of several lines, and nothing beside them but a comment."""
    text = "kernel: one\nabout: |\n  ---\n  more\n---\nkernel: two\n"
    first, _ = read_sources(written(tmp_path, text))
    assert first.data == {"kernel": "one", "about": "---\nmore\n"}
    with pytest.raises(SpecError, match="write '---' on a line of its own"):
        read_sources(written(tmp_path, "kernel: one\n--- {kernel: two}\n"))


def test_names_that_no_file_can_have() -> None:
    assert place_of("x" * 5000 + ".yaml#b") == ("x" * 5000 + ".yaml#b", "")
    assert place_of("dir#1/nope.yaml") == ("dir#1/nope.yaml", "")
