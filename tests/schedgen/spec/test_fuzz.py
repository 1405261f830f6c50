"""Mutated specs: whatever is done to a shipped spec, only errors for people come out of reading it.

A kernel that binding accepts must also be one that `derive` can handle.
"""

import copy
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedgen.dependence import derive
from schedgen.errors import Diagnostic, SchedgenError, SpecError
from schedgen.kernel import Kernel
from schedgen.machine_file import read_machine
from schedgen.spec.bind import bind
from schedgen.spec.reader import Spec, parse_spec, read_spec, shipped_specs, spec_from_data

SPACES = {name: read_machine(name).accumulators for name in ("h200", "b200")}
SPECS = {name: read_spec(name).source for name in shipped_specs()}
SCALARS: list[Any] = [
    *(0, 1, -1, 2, 3, 64, 128, 4097, 10**12, True, False, None, "", "0.5", "1/3", "3/4", "1e9"),
    *("auto", "inf", "-inf", "none", "tmem", "smem", "registers", "bf16", "f32", "tile", "part"),
    *("band", "slice", "S", "P", "O", "m@1", "S@2", "rS", "sK", "acc", "k", "rows", "scale"),
    *("own S", "other S", "auto rS", "rows * 2", "keys / 3", "1 / 0", "exp2(S) + column", "S < 1"),
    *("QK[0]", "PV@1", "b200", "load", "map", "reduce", "a b", "((", "{tile}", "x" * 70, "é\n"),
]
ACTIONS = ("alike", "move", "delete", "replace", "copy", "swap", "nest", "rename")
Path = tuple[str | int, ...]


def check(spec: Spec) -> int:
    """Bind ``spec`` for its targets and return the number of kernels that this gave."""
    count = 0
    for target in spec.file.targets:
        kernels, found = outcome(spec, target)
        assert all(diagnostic.fix and diagnostic.location for diagnostic in found)
        count += len(kernels)
        for kernel in kernels[:1]:
            graph = derive(kernel)
            names = {operation.name for operation in kernel.body}
            assert all(edge.src in names and edge.dst in names for edge in graph.edges)
            assert all(o.host in kernel.region for r in kernel.regions for o in r.options if o.host)
            assert all(name in kernel.region for ring in kernel.rings for name in ring.regions)
            assert {piece for o in kernel.operations for piece in o.writes} <= set(kernel.piece)
    return count


def outcome(spec: Spec, target: str) -> tuple[tuple[Kernel, ...], tuple[Diagnostic, ...]]:
    try:
        space = SPACES.get(target)
        return bind(spec.source, spec.file, target, accumulators=space), ()
    except SpecError as error:
        return (), error.diagnostics


def survives(read: Callable[[], Spec]) -> int:
    """Return the number of kernels of a spec; 0 if reading it raises an error for people."""
    try:
        spec = read()
    except SchedgenError as error:
        return len(str(error)) * 0
    return check(spec)


def paths(node: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the paths of everything below ``node``."""
    is_list = isinstance(node, list)
    items = enumerate(cast("list[Any]", node)) if is_list else cast("dict[str, Any]", node).items()
    for key, value in items:
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from paths(value, (*path, key))


def at(node: Any, path: Path) -> Any:
    for key in path:
        node = node[key]
    return node


def mutated(data: dict[str, Any], mutations: list[tuple[str, int, int]]) -> dict[str, Any]:
    """Apply structural mutations; the numbers choose places and values."""
    data = copy.deepcopy(data)
    for action, first, second in mutations:
        places = list(paths(data))
        if not places:
            break
        place, other = places[first % len(places)], places[second % len(places)]
        parent, key = at(data, place[:-1]), place[-1]
        if action == "delete":
            del parent[key]
        elif action == "replace":
            parent[key] = SCALARS[second % len(SCALARS)]
        elif action == "alike":  # what stands under the same key elsewhere
            alike = [p for p in places if p[-1] == key and len(p) == len(place)]
            parent[key] = copy.deepcopy(at(data, alike[second % len(alike)]))
        elif action == "copy":
            parent[key] = copy.deepcopy(at(data, other))
        elif action == "swap" and other[: len(place)] != place and place[: len(other)] != other:
            parent[key], at(data, other[:-1])[other[-1]] = at(data, other), parent[key]
        elif action == "nest":
            parent[key] = [parent[key]] if second % 2 else {"x": parent[key]}
        elif action == "rename" and isinstance(parent, dict):
            parent[str(SCALARS[second % len(SCALARS)])] = parent.pop(key)
        elif action == "move" and isinstance(parent, list):
            siblings = cast("list[Any]", parent)
            siblings.insert(second % (len(siblings) + 1), siblings[int(key)])
    return data


def edited(text: str, edits: list[tuple[str, int, int]]) -> str:
    """Apply textual mutations to the lines and words of a spec."""
    for action, first, second in edits:
        lines = text.split("\n")
        here, there = first % len(lines), second % len(lines)
        if action == "delete":
            del lines[here]
        elif action == "copy":
            lines.insert(there, lines[here])
        elif action == "swap":
            lines[here], lines[there] = lines[there], lines[here]
        elif action == "nest":
            lines[here] = "  " + lines[here]
        else:
            words = lines[here].split(" ")
            words[second % len(words)] = str(SCALARS[(first + second) % len(SCALARS)])
            lines[here] = " ".join(words)
        text = "\n".join(lines)
    return text


NUMBERS = st.integers(0, 1_000_000)
MUTATIONS = st.lists(st.tuples(st.sampled_from(ACTIONS), NUMBERS, NUMBERS), min_size=1, max_size=4)
NAMES = st.sampled_from(shipped_specs())
few = settings(max_examples=100, derandomize=True, database=None, deadline=None)
many = settings(max_examples=1000, derandomize=True, database=None, deadline=None)


def try_lines(name: str, edits: list[tuple[str, int, int]]) -> None:
    survives(lambda: parse_spec(edited(SPECS[name].text, edits), "mutant.yaml"))


def try_structure(name: str, mutations: list[tuple[str, int, int]]) -> None:
    survives(lambda: spec_from_data(mutated(SPECS[name].data, mutations)))


@pytest.mark.medium
@few
@given(name=NAMES, edits=MUTATIONS)
def test_mutated_lines(name: str, edits: list[tuple[str, int, int]]) -> None:
    try_lines(name, edits)


@pytest.mark.medium
@few
@given(name=NAMES, mutations=MUTATIONS)
def test_mutated_structure(name: str, mutations: list[tuple[str, int, int]]) -> None:
    try_structure(name, mutations)


@pytest.mark.slow
@many
@given(name=NAMES, edits=MUTATIONS)
def test_many_mutated_lines(name: str, edits: list[tuple[str, int, int]]) -> None:
    try_lines(name, edits)


@pytest.mark.slow
@many
@given(name=NAMES, mutations=MUTATIONS)
def test_many_mutated_structures(name: str, mutations: list[tuple[str, int, int]]) -> None:
    try_structure(name, mutations)


@pytest.mark.slow
@pytest.mark.parametrize("name", shipped_specs())
def test_every_scalar_and_every_key(name: str) -> None:
    """One mutation at a time, at every 24th place of the shipped specs."""
    data = SPECS[name].data
    for number, _ in list(enumerate(paths(data)))[::24]:
        for action, second in (("delete", 0), ("replace", number)):
            try_structure(name, [(action, number, second)])


@pytest.mark.slow
def test_shipped_specs_survive_both_ways() -> None:
    for source in SPECS.values():
        assert survives(lambda text=source.text: parse_spec(text)) > 0
        assert survives(lambda data=source.data: spec_from_data(data)) > 0
