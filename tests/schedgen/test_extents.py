"""What formulas say of iterations of output tiles."""

from __future__ import annotations

import pytest

from schedgen.codegen.binding import bound
from schedgen.extents import falls, uneven
from schedgen.kernel import Kernel
from schedgen.machine_file import read_machine
from schedgen.spec.bind import bind
from schedgen.spec.reader import read_spec


def kernel_of(spec: str, **settings: str) -> Kernel:
    found, machine = read_spec(spec), read_machine("h200")
    kernels = bind(found.source, found.file, "h200", settings, accumulators=machine.accumulators)
    return bound(kernels[0])


@pytest.mark.parametrize(
    ("spec", "settings", "wanted"),
    [
        ("attention_fwd", {"causal": "true"}, (True, False)),
        ("attention_fwd", {}, (False, False)),
        ("attention_bwd_kv", {"causal": "true"}, (True, True)),
        ("attention_bwd", {"causal": "true"}, (True, True)),
        ("attention_bwd", {"causal": "false"}, (False, False)),
        ("attention_bwd_q", {"causal": "true"}, (True, False)),
        ("gemm", {}, (False, False)),
    ],
)
def test_which_rows_have_more_iterations(
    spec: str, settings: dict[str, str], wanted: tuple[bool, bool]
) -> None:
    kernel = kernel_of(spec, **settings)
    assert (uneven(kernel), falls(kernel)) == wanted
