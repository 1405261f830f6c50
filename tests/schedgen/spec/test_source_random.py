"""Reading spec files that were changed at random: nothing but spec errors."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedgen.errors import SpecError
from schedgen.spec.source import parse_source
from tests.schedgen.spec.test_source import SPEC

ACTIONS = st.sampled_from(["delete", "insert", "duplicate", "swap", "cut"])
CHARACTERS = st.sampled_from(list("\t\n\r '\"[]{}:,-?#&*!|>%@`\\0x.<~\0é\u2028\ufeff宽"))
Mutation = tuple[str, int, str]


def mutate(text: str, mutations: list[Mutation]) -> str:
    for action, position, character in mutations:
        at = position % (len(text) + 1)
        lines = text.splitlines(keepends=True) or [""]
        number = position % len(lines)
        if action == "delete":
            text = text[:at] + text[at + 1 :]
        elif action == "insert":
            text = text[:at] + character + text[at:]
        elif action == "duplicate":
            text = "".join([*lines[: number + 1], *lines[number:]])
        elif action == "swap":
            text = "".join([*lines[:number], *lines[number + 1 :], lines[number]])
        else:
            text = text[:at]
    return text


def check_only_spec_errors(text: str) -> None:
    try:
        parse_source(text, "x.yaml")
    except SpecError as error:
        lines = text.removeprefix("\ufeff").split("\n")
        for found in error.diagnostics:
            at = found.location
            assert at is not None
            assert 1 <= at.line <= len(lines)
            assert 1 <= at.column <= len(lines[at.line - 1]) + 1
            assert at.length >= 1
            assert found.render()


MUTATIONS = st.lists(st.tuples(ACTIONS, st.integers(0, 10_000), CHARACTERS), max_size=6)


@settings(max_examples=20, deadline=None)
@given(mutations=MUTATIONS)
def test_mutated_specs_raise_only_spec_errors(mutations: list[Mutation]) -> None:
    check_only_spec_errors(mutate(SPEC, mutations))


@pytest.mark.slow
@settings(max_examples=3000, deadline=None)
@given(mutations=MUTATIONS)
def test_many_mutated_specs_raise_only_spec_errors(mutations: list[Mutation]) -> None:
    check_only_spec_errors(mutate(SPEC, mutations))


@pytest.mark.slow
@settings(max_examples=2000, deadline=None)
@given(text=st.text(CHARACTERS, max_size=40))
def test_noise_raises_only_spec_errors(text: str) -> None:
    check_only_spec_errors(text)
