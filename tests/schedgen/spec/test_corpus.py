"""Broken specs: each file of the corpus says in comments what is wrong with it, and where.

``# expect: RULE LINE:COLUMN TEXT`` names a diagnostic and the text that it underlines (left out
where that text does not show). The diagnostics of all targets together must be exactly these.
"""

import ast
import re
from pathlib import Path

import pytest

from schedgen.errors import Diagnostic, SchedgenError, SpecError
from schedgen.machine_file import read_machine
from schedgen.spec.bind import bind
from schedgen.spec.reader import parse_spec, read_spec

ROOT = Path(__file__).parents[3]
CORPUS = ROOT / "tests" / "corpus" / "broken"
EXPECTED = re.compile(r"^# expect: ([a-z0-9-]+) (\d+):(\d+)(?: (.*))?$", re.MULTILINE)


def diagnostics(name: str) -> list[Diagnostic]:
    """Return what is wrong with a file on any of its targets; nothing but SpecError may come."""
    found: list[Diagnostic] = []
    try:
        spec = read_spec(name)
    except SpecError as error:
        return list(error.diagnostics)
    for target in spec.file.targets:
        try:
            accumulators = read_machine(target).accumulators
            bind(spec.source, spec.file, target, accumulators=accumulators)
        except SpecError as error:
            found.extend(error.diagnostics)
    return found


def underlined(rendered: str) -> str:
    """Return the text above the carets of a rendered diagnostic."""
    _, source, carets = rendered.splitlines()[:3]
    start = carets.index("^")
    return source[start : start + carets.count("^")]


@pytest.mark.medium
@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.yaml")), ids=lambda path: path.stem)
def test_broken_spec(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    expected = {(rule, int(y), int(x)): shown for rule, y, x, shown in EXPECTED.findall(text)}
    assert expected
    found = diagnostics(str(path))
    places = {(d.rule, d.location.line, d.location.column) for d in found if d.location}
    assert places == set(expected)
    for diagnostic in found:
        rendered = diagnostic.render()
        assert diagnostic.location is not None
        at = diagnostic.location
        assert rendered.startswith(f"{path}:{at.line}:{at.column}: error[{diagnostic.rule}]: ")
        assert "\n  fix: " in rendered
        shown = expected[diagnostic.rule, at.line, at.column]
        assert underlined(rendered) == shown or not shown


RULE = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)+")
NO_RULES = {"utf-8"}
ELSEWHERE = {
    *(
        "file-is-directory",
        "file-not-found",
        "file-too-large",
        "yaml-empty",
        "yaml-not-utf8",
    ),  # here
    *(
        "file-not-regular",
        "file-unreadable",
        "yaml-directive",
        "yaml-escape",
    ),  # test_source_mistakes
    "yaml-too-many-nodes",  # there, too
    *("alias-outside-loop", "ring-partly-in-loop"),  # of kernels that are made without a spec
}
"""Rules whose mistakes are no specs that could stand in the corpus."""


def rules() -> set[str]:
    """All names of rules in the code that reads specs."""
    files = [
        *(ROOT / "schedgen" / "spec").glob("*.py"),
        *(ROOT / "schedgen" / "expressions").glob("*.py"),
    ]
    files += [ROOT / "schedgen" / name for name in ("storage_rules.py", "conditional.py")]
    texts = [
        node.value
        for file in files
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return {text for text in texts if RULE.fullmatch(text)} - NO_RULES


def test_every_rule_is_in_the_corpus() -> None:
    """A rule that nobody breaks on purpose may say anything, or nothing."""
    broken = {
        rule
        for path in CORPUS.glob("*.yaml")
        for rule, *_ in EXPECTED.findall(path.read_text("utf-8"))
    }
    assert rules() - broken == ELSEWHERE


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (b"schedgen: 1\nkernel: caf\xe9\n", "yaml-not-utf8"),
        ("schedgen: 1\n".encode("utf-16"), "yaml-not-utf8"),
        (b"", "yaml-empty"),
        (b"# nothing\n", "yaml-empty"),
        (b"schedgen: 1\n#" + b"x" * 10_000_000, "file-too-large"),
    ],
    ids=["latin-1", "utf-16", "empty", "comment", "10 MB"],
)
def test_broken_file(tmp_path: Path, content: bytes, rule: str) -> None:
    path = tmp_path / "spec.yaml"
    path.write_bytes(content)
    (found,) = diagnostics(str(path))
    assert found.rule == rule
    assert found.fix
    assert str(path) in found.render()


def test_no_file(tmp_path: Path) -> None:
    (directory,) = diagnostics(str(tmp_path))
    (missing,) = diagnostics(str(tmp_path / "spec.yaml"))
    assert (directory.rule, missing.rule) == ("file-is-directory", "file-not-found")
    assert directory.fix
    assert missing.fix


def test_billion_laughs() -> None:
    lists = [f"  x{n + 1}: &x{n + 1} [{', '.join([f'*x{n}'] * 9)}]\n" for n in range(9)]
    text = "schedgen: 1\norders:\n  x0: &x0 [a, a]\n" + "".join(lists)
    with pytest.raises(SpecError) as caught:
        parse_spec(text)
    assert {found.rule for found in caught.value.diagnostics} == {"yaml-anchor"}


def test_unknown_name() -> None:
    with pytest.raises(SchedgenError, match=r"'gem' is neither .* did you mean 'gemm'\?"):
        read_spec("gem")
    with pytest.raises(SchedgenError, match=r"shipped specs: .*attention_fwd, "):
        read_spec("zzzz")
