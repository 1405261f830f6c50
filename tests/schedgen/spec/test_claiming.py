"""How blocks come to output tiles, as a spec says it."""

from __future__ import annotations

import pytest

from schedgen.errors import SpecError
from schedgen.kernel import Kernel
from schedgen.spec.bind import bind
from schedgen.spec.reader import parse_spec, read_spec

SAYS = "persistent: true"


def kernel(claim: str, name: str = "gemm", **settings: str) -> Kernel:
    text = read_spec(name).source.text
    assert text.count(SAYS) == 1
    spec = parse_spec(text.replace(SAYS, claim))
    return bind(spec.source, spec.file, "h200", settings)[0]


@pytest.mark.parametrize(
    ("says", "claim"),
    [
        (SAYS, "fixed"),
        ("one_tile: []", "fixed"),
        ("persistent: false", "launch"),
        ("claim: fixed", "fixed"),
        ("claim: dynamic", "dynamic"),
        ("claim: launch", "launch"),
        ("claim: where(tile_n == 256, dynamic, launch)", "dynamic"),
        ("persistent: true\n  claim: dynamic", "dynamic"),
        ("persistent: false\n  claim: launch", "launch"),
    ],
)
def test_words(says: str, claim: str) -> None:
    assert kernel(says).claim == claim


@pytest.mark.parametrize(
    ("says", "name", "message", "fix"),
    [
        ("claim: dynamc", "gemm", "dynamc", "did you mean 'dynamic'?"),
        ("persistent: false\n  claim: dynamic", "gemm", "one tile", "remove 'persistent'"),
        ("persistent: true\n  claim: launch", "gemm", "several tiles", "remove 'persistent'"),
        (
            "claim: dynamic",
            "attention_varlen_bwd_delta",
            "whose sizes are data",
            "say 'claim: fixed'",
        ),
        ("claim: dynamic", "attention_kvcache_parts", "'tile_when' says", "say 'claim: fixed'"),
    ],
)
def test_mistakes(says: str, name: str, message: str, fix: str) -> None:
    with pytest.raises(SpecError) as caught:
        kernel(says, name)
    assert message in str(caught.value)
    assert fix in str(caught.value)


def test_sizes_that_are_data_along_the_loop_are_no_obstacle() -> None:
    """Only tiles that there are not would be skipped."""
    assert kernel("claim: launch", "attention_varlen_bwd_delta").claim == "launch"
    assert kernel("claim: dynamic", "attention_fwd").claim == "dynamic"
