"""Sums in the order of output tiles (``ordered`` of stores): what a spec may say, and the turns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from schedgen.codegen.emit import emit
from schedgen.driver.emulating import compiled
from schedgen.driver.inputs import default_extents, outputs, random_inputs
from schedgen.driver.turns import told, turns_of
from schedgen.emulator.machine.policies import Adversarial, RoundRobin, Seeded
from schedgen.expressions import render
from schedgen.kernel import Kernel
from schedgen.machine_file import read_machine
from schedgen.ordered import most_trips, ordered_sums
from schedgen.program.model import Step
from schedgen.proof.prove import check
from schedgen.spec.bind import bind
from schedgen.spec.reader import read_spec
from schedgen.spec.taking_turns import turn_mistake
from schedgen.tensors import Place
from tests.codegen.examples import room_for, solved

SUMS = str(Path("tests/data/specs/sums_in_order.yaml"))
GROUPS = str(Path("tests/data/specs/sums_of_groups.yaml"))


def bound(name: str, target: str = "h200", **settings: str) -> Kernel:
    spec, space = read_spec(name), read_machine(target).accumulators
    return bind(spec.source, spec.file, target, settings, accumulators=space)[0]


def test_turns_are_those_of_iterations() -> None:
    kernel = bound(SUMS)
    (one,) = ordered_sums(kernel)
    assert (one.tensor, one.turns, one.along, one.places) == ("e", "turns", "n", ("m",))
    assert one.stores == ("ADD[0]", "ADD[1]")
    assert told(kernel) == {"turns"}
    assert turns_of(kernel, {"m": 129, "n": 300, "k": 65}) == {"n_turns": 4}
    assert default_extents(kernel, {"m": 1, "k": 1})["n_turns"] == 1


@pytest.mark.parametrize("causal", ["true", "false"])
def test_gradients_of_queries_add_up_over_keys(causal: str) -> None:
    kernel = bound("attention_bwd", ordered="true", causal=causal)
    (one,) = ordered_sums(kernel)
    assert (one.along, one.places) == ("seq_k", ("batch", "heads"))
    sizes = {"batch": 2, "heads": 3, "seq_q": 129, "seq_k": 1, "heads_k": 1}
    assert turns_of(kernel, sizes) == {"n_turns": 12}


def test_turns_of_packed_sequences_are_those_of_the_longest() -> None:
    kernel = bound("attention_varlen_bwd", ordered="true")
    (one,) = ordered_sums(kernel)
    assert (one.along, one.places) == ("seq_k", ("batch", "heads"))
    sizes = {"batch": 2, "heads": 3, "seq_q": 129, "total_q": 200}
    assert turns_of(kernel, sizes) == {"n_turns": 12}


def test_without_room_a_sequence_may_be_all_that_is_packed() -> None:
    kernel = bound("attention_varlen_bwd", ordered="true")
    packed = [a for a in kernel.arguments if a.name not in ("lse", "delta")]
    count = most_trips(replace(kernel, arguments=tuple(packed)))
    assert count is not None
    assert render(count) == "ceil(total_q / 128)"


@pytest.mark.medium
@pytest.mark.parametrize(("target", "later"), [("h200", "true"), ("b200", "false")])
def test_tiles_of_a_group_take_turns(
    target: str, later: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of groups without elements there are no tiles, and nobody waits for one of another group, or
    for one of a CTA that has not begun: two have room at a time.
    """
    room_for(2, monkeypatch)
    proven, kernel = solved(GROUPS, target, later=later)
    given = {"m": 130, "n": 300, "k": 200}
    sizes = default_extents(kernel, given)
    inputs = random_inputs(kernel, sizes, 0)
    found: list[torch.Tensor] = []
    with compiled(emit(proven, kernel), kernel, proven.program.arch, sms=2) as made:
        for policy in (RoundRobin(), Adversarial(1)):
            outcome = made.run(given, policy)
            assert outcome.correct
            assert outcome.clean, outcome.report.text
            results = outputs(kernel, sizes, inputs)
            zeros = {"turns": torch.zeros(sizes["n_turns"], dtype=torch.int32)}
            made.execute({**inputs, **results, **zeros}, policy)
            found.append(results["e"].clone())
            tiles = zeros["turns"].view(5, 2, 4)  # of groups of 300, 1, 129, 0 and 127 elements
            for count, words in zip((3, 1, 2, 0, 1), tiles, strict=True):
                assert (words == count).all()  # where the last tiles begin later they come first
    assert torch.equal(*found)


@pytest.mark.medium
@pytest.mark.parametrize(("target", "later"), [("h200", "true"), ("b200", "false")])
def test_bits_do_not_depend_on_who_comes_first(target: str, later: str) -> None:
    """Three tiles add to the same rows, also if they begin later one by one; under orders that are
    meant to break it, too.
    """
    proven, kernel = solved(SUMS, target, later=later)
    sizes = default_extents(kernel, {"m": 130, "n": 300, "k": 200})
    inputs = random_inputs(kernel, sizes, 0)
    found: list[torch.Tensor] = []
    with compiled(emit(proven, kernel), kernel, proven.program.arch, sms=2) as made:
        for policy in (RoundRobin(), Seeded(1), Adversarial(1), Adversarial(2)):
            outcome = made.run(sizes, policy)
            assert outcome.correct
            assert outcome.clean, outcome.report.text
            results = outputs(kernel, sizes, inputs)
            zeros = {"turns": torch.zeros(sizes["n_turns"], dtype=torch.int32)}
            made.execute({**inputs, **results, **zeros}, policy)
            found.append(results["e"].clone())
            last = [1, 2, 3, 3] if later == "true" else [3, 3, 3, 3]
            assert zeros["turns"].tolist() == [*last, *last]
    assert all(torch.equal(found[0], one) for one in found)


@pytest.mark.slow
@pytest.mark.parametrize("causal", ["true", "false"])
def test_gradients_in_turns(causal: str) -> None:
    """Three tiles of keys, the last ones first where a mask makes them shorter."""
    proven, kernel = solved("attention_bwd", "h200", ordered="true", causal=causal)
    sizes = {"seq_q": 200, "seq_k": 300, "heads": 2, "heads_k": 1}
    with compiled(emit(proven, kernel), kernel, proven.program.arch, sms=4) as made:
        for policy in (RoundRobin(), Adversarial(1)):
            outcome = made.run(sizes, policy)
            assert outcome.correct
            assert outcome.clean, outcome.report.text


@pytest.mark.medium
def test_too_few_words(capfd: pytest.CaptureFixture[str]) -> None:
    proven, kernel = solved(SUMS, "h200")
    sizes = default_extents(kernel, {})
    with compiled(emit(proven, kernel), kernel, proven.program.arch) as made:
        inputs, results = random_inputs(kernel, sizes, 0), outputs(kernel, sizes)
        with pytest.raises(Exception, match=r"0 blocks|grid"):
            made.execute({**inputs, **results, "turns": torch.zeros(1, dtype=torch.int32)})
    assert "turns has 1 words, and there are 6 turns" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"step": 32}, "iterations of ADD add to elements of the ones before"),
        ({"step": 0}, "iterations of ADD do not each add to elements of their own"),
        ({"block": 64}, "iterations of ADD do not each add to elements of their own"),
    ],
)
def test_iterations_have_elements_of_their_own(change: dict[str, int], message: str) -> None:
    kernel = bound(SUMS)

    def other(place: Place) -> Place:
        return replace(place, **change) if place.step else place  # type: ignore[arg-type]

    stores = [o for o in kernel.operations if o.turns]
    changed = [replace(o, places=tuple(map(other, o.places))) for o in stores]
    found = turn_mistake(kernel, changed)
    assert found is not None
    assert found.message == message


@pytest.mark.medium
def test_steps_of_turns_are_looked_up() -> None:
    """Without one of them, or with a copy outside of its turn, all methods object."""
    proven, _ = solved(SUMS, "h200")
    program = proven.program
    (at,) = (n for n, role in enumerate(program.roles) if "await turn: e" in str(role.loop))
    role = program.roles[at]
    places = [n for n, step in enumerate(role.loop) if "turn: e" in str(step.action)]
    assert len(places) == 2
    for change in (_without(places[0]), _without(places[1]), _moved(places[1], 0)):
        roles = [*program.roles]
        roles[at] = replace(role, loop=tuple(change([*role.loop])))
        proof = check(replace(program, roles=tuple(roles)), quick=True)
        assert all(
            any("turn" in finding.text for finding in verdict.findings)
            for verdict in proof.verdicts
        )


Steps = list[Step]


def _without(place: int) -> Callable[[Steps], Steps]:
    def changed(steps: Steps) -> Steps:
        return steps[:place] + steps[place + 1 :]

    return changed


def _moved(place: int, to: int) -> Callable[[Steps], Steps]:
    def changed(steps: Steps) -> Steps:
        return [*steps[:to], steps[place], *steps[to:place], *steps[place + 1 :]]

    return changed
