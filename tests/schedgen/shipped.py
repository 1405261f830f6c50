"""Shipped specs with the targets that they are written for."""

from __future__ import annotations

from typing import Any

import pytest

from schedgen.spec.reader import read_spec, shipped_specs

LONG = {("attention_bwd_kv", "h200"), ("attention_varlen_bwd_kv", "h200")}
"""Those whose solver takes 10 s and more; tests that solve them are slow."""


def targets() -> list[Any]:
    """Names of specs and targets, as parameters of tests that solve them."""
    every = ((name, target) for name in shipped_specs() for target in read_spec(name).file.targets)
    return [pytest.param(*one, marks=[pytest.mark.slow] if one in LONG else []) for one in every]
