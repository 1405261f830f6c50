"""What is left of diverted functions of torch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch._dynamo import trace_rules

from schedgen.emulator.launch.targets import target
from schedgen.emulator.standin.torch_standin import stand_in


def test_functions_are_compiled_afterwards() -> None:
    """Dynamo looks up torch's functions once, and that may have been while others stood there."""
    rules: Any = trace_rules
    rules.clear_lru_cache()
    with stand_in(target("sm_90a", 2)):
        rules.get_torch_obj_rule_map()

    def counted(x: Tensor) -> Tensor:
        return x + torch.arange(3)

    compiled = torch.compile(counted, fullgraph=True, backend="eager")
    assert compiled(torch.ones(3)).tolist() == [1, 2, 3]
