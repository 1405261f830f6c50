"""The dependence graph: all operations and dependences, the critical cycle marked."""

import re
import shutil
import subprocess
from dataclasses import replace

import pytest

from schedgen.visualize.dot import dot
from schedgen.visualize.unrolled import links
from tests.visualize.schedules import SHIPPED, solved

EDGE = re.compile(r'  "([^"]+)" -> "([^"]+)" \[label="([^"]*)", (.*)\];')
NODE = re.compile(r'  "([^"]+)" \[label="([^"]*)", (.*)\];')


@pytest.mark.parametrize("which", SHIPPED, ids="-".join)
def test_nodes_and_edges_are_those_of_the_schedule(which: tuple[str, str]) -> None:
    schedule = solved(*which)
    lines = dot(schedule).splitlines()
    nodes = {m[1] for line in lines if (m := NODE.fullmatch(line))}
    assert nodes == {op.id for op in schedule.body}
    edges = [m.groups() for line in lines if (m := EDGE.fullmatch(line))]
    wanted = {(edge.src, edge.dst) for edge in schedule.edges}
    cycle = {(link.src, link.dst) for link in links(schedule.critical_cycle)}
    assert {(src, dst) for src, dst, _, _ in edges} == wanted | cycle


@pytest.mark.parametrize("which", SHIPPED, ids="-".join)
def test_the_critical_cycle_is_marked_and_nothing_else(which: tuple[str, str]) -> None:
    schedule = solved(*which)
    found = [m for line in dot(schedule).splitlines() if (m := EDGE.fullmatch(line))]
    marked = sorted((m[1], m[2]) for m in found if "#c00000" in m[4])
    assert marked == sorted((link.src, link.dst) for link in links(schedule.critical_cycle))


def test_one_start_time_changes_the_graph() -> None:
    schedule = solved("fa4_unit", "abstract")
    op = schedule.ops[2]
    ops = tuple(replace(o, start=o.start + 1) if o is op else o for o in schedule.ops)
    before, after = (dot(s).splitlines() for s in (schedule, replace(schedule, ops=ops)))
    changed = [line for line in after if line not in before]
    assert len(changed) == 1
    assert changed[0].startswith(f'  "{op.id}"')


def test_distances_and_quotes() -> None:
    schedule = solved("fa4_unit", "abstract")
    text = dot(replace(schedule, kernel='a "b"'))
    assert text.startswith('digraph "a \\"b\\"" {')
    attention = dot(solved("attention_fwd", "b200"))
    assert '"PV[0,0]" -> "LK" [label="kv (3)", color=gray45' in attention


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
@pytest.mark.parametrize("which", SHIPPED, ids="-".join)
def test_graphviz_draws_it(which: tuple[str, str]) -> None:
    run = subprocess.run(
        ["dot", "-Tsvg"], input=dot(solved(*which)), capture_output=True, text=True, check=True
    )
    assert "Error" not in run.stderr
    assert run.stdout.count('class="node"') == len(solved(*which).body)
