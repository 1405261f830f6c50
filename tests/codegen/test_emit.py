"""Whole files: what they say, and what cannot be written."""

from __future__ import annotations

import ast
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from schedgen.codegen.emit import emit
from schedgen.codegen.errors import EmitError
from schedgen.kernel import Kernel, Kind
from schedgen.proof.prove import ProvenProgram
from tests.codegen.examples import GEMM, solved, text_of

HOPPER = {"tile_m": "64", "tile_n": "32", "slice_n": "32", "consumers": "1"}


def changed(proven: ProvenProgram, **fields: str) -> ProvenProgram:
    program = replace(proven.program, **fields)
    return cast("ProvenProgram", SimpleNamespace(program=program))


@pytest.mark.parametrize(("target", "settings"), [("h200", HOPPER), ("b200", GEMM)])
def test_file(target: str, settings: dict[str, str]) -> None:
    text = text_of("gemm", target, **settings)
    proven, kernel = solved("gemm", target, **settings)
    tree = ast.parse(text)
    defined = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    assert len(set(defined)) == len(defined)
    assert {"kernel", "launch"} <= {*defined}
    for role in proven.program.roles:
        assert {role.name, role.name.rstrip("01")} & {*defined}
    assert kernel.spec_sha256 in (ast.get_docstring(tree) or "")
    for operation in kernel.operations:
        assert f"# {operation.base}" in text
    for barrier in proven.program.barriers:
        assert barrier.name in text
    assert emit(proven, kernel) == text


def test_library_is_what_is_used() -> None:
    text = text_of("gemm", "b200", **GEMM)
    called = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
    functions = [n.name for n in ast.parse(text).body if isinstance(n, ast.FunctionDef)]
    assert set(functions) <= called | {"launch"}
    assert "def row_max" not in text


def test_program_of_another_spec() -> None:
    proven, kernel = solved("gemm", "h200", **HOPPER)
    with pytest.raises(EmitError, match=r"another version of 'gemm'; solve it again"):
        emit(changed(proven, spec_sha256="0"), kernel)


def test_unknown_architecture() -> None:
    proven, kernel = solved("gemm", "h200", **HOPPER)
    with pytest.raises(EmitError, match="there is no emitter for sm_80"):
        emit(changed(proven, arch="sm_80"), kernel)


def _other(kernel: Kernel, kind: Kind, **fields: object) -> Kernel:
    """The kernel with fields of its operations of a kind changed."""
    operations = tuple(
        replace(operation, **fields) if operation.kind is kind else operation  # type: ignore[arg-type]
        for operation in kernel.operations
    )
    return replace(kernel, operations=operations)


def test_product_that_the_tensor_core_lacks() -> None:
    proven, kernel = solved("gemm", "b200", **GEMM)
    with pytest.raises(EmitError, match=r"MMA\[0\]: the product has 64 columns, its result 32"):
        emit(proven, _other(kernel, Kind.MMA, transpose_b=False))


def test_load_without_place() -> None:
    proven, kernel = solved("gemm", "b200", **GEMM)
    with pytest.raises(EmitError, match="nothing says where the tile of LA lies"):
        emit(proven, _other(kernel, Kind.LOAD, places=()))


def test_unknown_order_of_tiles() -> None:
    proven, kernel = solved("gemm", "b200", **GEMM)
    with pytest.raises(EmitError, match="no emitter for tiles 'diagonal'"):
        emit(proven, replace(kernel, tiles="diagonal"))
