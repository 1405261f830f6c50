"""Names of specs never meet those of generated files."""

from __future__ import annotations

import ast
import re
from dataclasses import replace

import pytest

from schedgen.codegen.binding import bound
from schedgen.codegen.errors import EmitError
from schedgen.codegen.names import RESERVED, Names, identifier, plain, renamed, renamed_tensor
from schedgen.driver.emulating import emulate
from tests.codegen.examples import ARCHITECTURES, SPECS, solved, text_of

CLASHING = SPECS / "clashing_names.yaml"


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("EXP[0,1]", "EXP_0_1"),
        ("sA full sB full", "sA_full_sB_full"),
        ("S[0] full by STP[1,0]", "S_0_full_by_STP_1_0"),
        ("tile", "x_tile"),
        ("class", "x_class"),
        ("range", "x_range"),
        ("row_max", "x_row_max"),
        ("at_m", "x_at_m"),
        ("_m", "m"),
        ("2nd", "x_x_2nd"),
    ],
)
def test_identifier(name: str, wanted: str) -> None:
    assert identifier(name) == wanted


def test_prefixes_keep_names_apart() -> None:
    assert plain("tile") == "tile"
    assert Names(set()).of("registers", "tile", "r_") == "r_tile"


def test_different_names_stay_different() -> None:
    names = ["tile", "x_tile", "x_x_tile", "m", "x_m", "in_m", "x_in_m", "lambda", "_m"]
    for function in (renamed, renamed_tensor):
        assert len({function(name) for name in names}) == len(names)
        assert all(function(name).isidentifier() for name in names)


def test_tensors_are_known_on_the_host_only() -> None:
    assert (renamed("v"), renamed_tensor("v")) == ("x_v", "v")
    assert renamed_tensor("stream") == "x_stream"


def test_names_are_given_once() -> None:
    names = Names({"m"})
    assert [names.of("view", "m"), names.of("operation", "m"), names.of("view", "m")] == [
        *("m_2", "m_3", "m_2")
    ]


def _assigned(text: str) -> set[str]:
    """Names that functions of a file give values to, or that it defines."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                found.add(name)
            case ast.FunctionDef(name=name):
                found.add(name)
            case _:
                pass
    return found


@pytest.mark.parametrize("target", ARCHITECTURES)
def test_names_of_generated_files_are_reserved(target: str) -> None:
    """A variable that the emitter begins to use has to be added to the list."""
    spec = SPECS / "product_softmax.yaml"
    _, kernel = solved(spec, target)
    named = {a.name for a in kernel.arguments} | {e for a in kernel.arguments for e in a.shape}
    named |= {o.base for o in kernel.operations} | {r.base for r in kernel.regions}
    text = text_of(spec, target)
    library, after = re.split(r"(?<=\n)(?=@cute.jit\ndef (?:BRING|EDGE))", text, maxsplit=1)
    roles = {"load", "mma", "vector", "store"}
    states = {name for name in _assigned(after) if re.search(r"_(stage|phase)(_|$)", name)}
    assert states  # of rings; `Names` keeps them apart
    own = _assigned(after) - named - roles - states
    assert "def slot(" in library
    unknown = {name for name in own - RESERVED if renamed(name) == name}
    assert not unknown, sorted(unknown)


@pytest.mark.slow
@pytest.mark.parametrize("target", ARCHITECTURES)
def test_clashing_names(target: str) -> None:
    """A spec in which every name is one that Python, the DSL or generated files have."""
    proven, kernel = solved(CLASHING, target)
    outcome = emulate(text_of(CLASHING, target), kernel, proven.program.arch)
    assert outcome.correct
    assert outcome.clean


def test_callers_see_the_names_of_the_spec() -> None:
    text = text_of(CLASHING, "h200")
    assert '("kernel", ("piece", "trips"), "bf16"),' in text
    assert re.search(r"def launch\(\s*x_kernel: cute.Tensor,", text)


@pytest.mark.parametrize("name", ["row", "column", "tile_row"])
def test_coordinates_are_refused(name: str) -> None:
    """Value, rule, fix."""
    _, kernel = solved(CLASHING, "h200")
    scalar = kernel.arguments[-1]
    changed = replace(kernel, arguments=(*kernel.arguments[:-1], replace(scalar, name=name)))
    with pytest.raises(EmitError, match=rf"'{name}' is an extent or a scalar") as caught:
        bound(changed)
    assert (caught.value.rule, caught.value.fix) == ("name-clash", "give it another name")
