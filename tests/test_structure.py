"""The floor plan: who may import whom, and how large a file is.

An import counts wherever it stands: inside a function or for type checkers only, it says just as
well that one module cannot be understood without the other.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import networkx as nx

ROOT = Path(__file__).parents[1]
FOLDERS = {
    "schedgen": "schedgen",
    "benchmarks/measured": "schedgen.benchmarks",
    "benchmarks/mutation": "schedgen.benchmarks.mutants",
    **{name: f"schedgen.{name}" for name in ("codegen", "emulator", "kernels", "visualize")},
}
GENERATED = "*_sm_[0-9]*"
MOST_LINES = 400


@cache
def modules() -> dict[str, Path]:
    """All modules by name, but for generated kernels and the façade `schedgen` itself."""
    found: dict[str, Path] = {}
    for folder, package in FOLDERS.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not path.match(GENERATED):
                parts = path.relative_to(ROOT / folder).with_suffix("").parts
                found[".".join([package, *parts]).removesuffix(".__init__")] = path
    del found["schedgen"]
    return found


def imported(path: Path) -> Iterator[str]:
    """The modules of schedgen that a file imports."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            inside = [name for name in names if name in modules()]
            yield from inside
            if len(inside) < len(names):
                yield node.module


@cache
def imports() -> nx.DiGraph[str]:
    """An edge from each module to those that it imports, or imports from."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(modules())
    for name, path in modules().items():
        graph.add_edges_from((name, other) for other in imported(path) if other in modules())
    return graph


def package(module: str) -> str:
    """The room that a module stands in; top-level modules of schedgen are rooms of their own."""
    parts = module.split(".")
    return ".".join(parts[:2])


def circles(graph: nx.DiGraph[str]) -> list[set[str]]:
    """Sets of nodes that lead to each other."""
    return [found for found in nx.strongly_connected_components(graph) if len(found) > 1]


def test_modules_are_found() -> None:
    assert {"schedgen.kernel", "schedgen.codegen.emit", "schedgen.emulator"} <= set(modules())
    assert imports().has_edge("schedgen.driver.binding", "schedgen.spec.bind")
    assert imports().has_edge("schedgen.driver.solution", "schedgen.solver.search")  # inside


def test_no_circles_of_modules() -> None:
    assert circles(imports()) == []


def test_no_circles_of_packages() -> None:
    rooms: nx.DiGraph[str] = nx.DiGraph()
    rooms.add_edges_from(
        (package(one), package(other))
        for one, other in imports().edges
        if package(one) != package(other)
    )
    assert circles(rooms) == []


def test_proof_methods_do_not_know_each_other() -> None:
    """The graph, Z3 and the executor share the model of programs and findings, nothing else."""
    graph = imports()
    shared = ("schedgen.program.", "schedgen.findings")

    def reached(start: str) -> set[str]:
        return {name for name in nx.descendants(graph, start) if name.startswith("schedgen.p")}

    methods = {
        name: {start, *reached(start)}
        for name, start in {
            "graph": "schedgen.proof.graph",
            "smt": "schedgen.proof.smt",
            "execution": "schedgen.proof.explore",
        }.items()
    }
    for one, mine in methods.items():
        for other, theirs in methods.items():
            if one < other:
                common = {name for name in mine & theirs if not name.startswith(shared)}
                assert common <= {"schedgen.program", "schedgen.proof"}, (one, other, common)
    with_executor = nx.descendants(graph, "schedgen.proof.explore")
    assert any(name.startswith("schedgen.execution.") for name in with_executor)
    for other in ("schedgen.proof.graph", "schedgen.proof.smt"):
        found = nx.descendants(graph, other)
        assert not any(name.startswith("schedgen.execution") for name in found)
    assert not any(name.startswith("schedgen.ordering") for name in with_executor)
    assert not any(
        name.startswith("schedgen.proof")
        for name in nx.descendants(graph, "schedgen.execution.machine")
    )


def test_no_file_is_too_long() -> None:
    paths = [
        *modules().values(),
        *(ROOT / "tests").rglob("*.py"),
        *(ROOT / "benchmarks").rglob("*.py"),
    ]
    long = {
        str(path.relative_to(ROOT)): count
        for path in paths
        if (count := len(path.read_text("utf-8").splitlines())) > MOST_LINES
    }
    assert not long
