"""Kernels begin while the one before them still runs, and wait for it before they touch memory; or
for its tiles, and for its end behind all else (`schedgen.following`).
"""

from __future__ import annotations

import ast
import re

import pytest

from schedgen.kernels.library import named
from schedgen.kernels.regenerate import Shipped, shipped
from tests.codegen.examples import text_of

WAIT = "cute.arch.griddepcontrol_wait"
LAUNCH = "cute.arch.griddepcontrol_launch_dependents"
FOLLOWS = "\nFOLLOWS = "
ALLOWED = {"cpasync.prefetch_descriptor"}
"""What may stand before the wait although it is about global memory: a descriptor is a parameter
of the kernel, which no kernel writes."""
_BF16 = [one for one in shipped() if ("dtype", "bf16") in one.settings]
"""Those of the other type differ in nothing that is looked at here."""
_OFTEN = {
    one.name
    for pair in {(one.spec, one.target) for one in _BF16}
    for one in [some for some in _BF16 if (some.spec, some.target) == pair][:6]
}
SHIPPED = [
    pytest.param(one, marks=() if one.name in _OFTEN else pytest.mark.slow, id=one.name)
    for one in _BF16
]
"""All of them; six of each spec and target are enough to look at often."""
TOUCHES = ("cute.copy", "tma_", "cute.local_tile", "cpasync.")


def calls(text: str) -> list[str]:
    """Names of the functions that the kernel calls itself, in order of the text."""
    tree = ast.parse(text)
    body = next(n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "kernel")
    found = [n for n in ast.walk(body) if isinstance(n, ast.Call)]
    found.sort(key=lambda n: (n.lineno, n.col_offset))
    return [ast.unparse(n.func) for n in found]


def check(text: str) -> None:
    found = calls(text)
    assert (found.count(WAIT), found.count(LAUNCH)) == (1, 1)
    before = found[: found.index(LAUNCH)]
    if FOLLOWS in text:
        assert found[-1] == WAIT
        assert len(re.findall(r"^        await_tiles\(", text, re.MULTILINE)) == 1
    else:
        assert before.pop() == WAIT
    assert "cute.arch.mbarrier_init_fence" in before
    assert before[-1] == "cute.arch.sync_threads"
    tables = {n.targets[0].id: n.value for n in ast.parse(text).body
              if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name)}  # fmt: skip
    roles = {name for name, *_ in ast.literal_eval(tables["ROLES"])}
    # roles that do the same have a function together, which is called what their names begin with
    entered = [name for name in found if any(role.startswith(name) for role in roles)]
    assert all(any(role.startswith(name) for name in entered) for role in roles)
    style = ast.literal_eval(tables["STYLE"]) if "STYLE" in tables else ()
    alone = "shared" not in style
    assert len(entered) == len(roles) or not alone  # those in one branch have one call
    assert not {*entered} & {*before}
    assert not [n for n in before if n.startswith(TOUCHES) and n not in ALLOWED]
    launch = next(
        n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Call)
        and isinstance(n.func, ast.Attribute) and n.func.attr == "launch"
    )  # fmt: skip
    given = {k.arg: ast.unparse(k.value) for k in launch.keywords}
    assert given["use_pdl"] == "True"


@pytest.mark.slow
@pytest.mark.parametrize("kernel", SHIPPED)
def test_shipped(kernel: Shipped) -> None:
    check(named(kernel.name).read_text("utf-8"))


@pytest.mark.slow
@pytest.mark.parametrize("target", ["h200", "b200"])
def test_products_know_their_first_tile(target: str) -> None:
    """Before the wait the kernel finds it, for roles of one warp; warpgroups do not take it."""
    text = text_of("gemm_symmetric", target)
    before, after = text[text.index("def kernel(") :].split(f"    {WAIT}()")
    assert re.search(r"^    at_m, at_n = in_triangle\(", before, re.MULTILINE)
    for role, warps in (("load", 1), ("store", 1), ("epilogue", 4)):
        taken = re.search(rf"^def {role}\d?\((.*?)\):$", text, re.MULTILINE | re.DOTALL)
        assert taken
        assert ("at_m: Int32" in taken[1]) == (warps == 1)
        assert "tile: Int32" in taken[1]
    assert "in_triangle" not in after.split("def launch(")[0]


@pytest.mark.parametrize("target", ["h200", "b200"])
def test_emitted(target: str) -> None:
    check(text_of("gemm_chain", target))


@pytest.mark.parametrize("line", [WAIT, LAUNCH])
def test_one_that_is_missing(line: str) -> None:
    text = text_of("gemm_chain", "h200").replace(f"{line}()", "pass")
    with pytest.raises(AssertionError):
        check(text)


@pytest.mark.medium
@pytest.mark.parametrize("kernel", SHIPPED)
def test_descriptors_are_fetched_by_who_uses_them(kernel: Shipped) -> None:
    """Each one once, by the warp of a role that takes it, before the next kernel may begin."""
    text = named(kernel.name).read_text("utf-8")
    before, after = text[text.index("def kernel(") :].split(f"    {LAUNCH}()")
    fetched: dict[str, str] = {}
    for warp, lines in re.findall(
        r"    if warp == (\d+):\n((?:        cpasync\.prefetch_descriptor\(\w+\)\n)+)", before
    ):
        for name in re.findall(r"\((\w+)\)", lines):
            assert name not in fetched
            fetched[name] = warp
    taken = re.findall(r"^    (tma_\w+): cute.CopyAtom", before, re.MULTILINE)
    assert sorted(fetched) == sorted(taken)
    for name, warp in fetched.items():
        role = re.search(rf"        if warp == {warp}:\n            \w+\(([^)]*)\)", after)
        assert role is not None
        assert f" {name}," in role[1]
