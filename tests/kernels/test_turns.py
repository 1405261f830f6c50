"""Arrays by which output tiles take turns."""

from __future__ import annotations

import torch

from schedgen.codegen.facts import read_facts
from schedgen.kernels import library, recording, turns

SIZES = {"batch": 1, "seq_q": 128, "heads": 1, "heads_k": 1, "seq_k": 128, "head_dim": 64}
CPU = torch.device("cpu")


def test_launches_begin_with_zeros_in_turns_and_nowhere_else() -> None:
    facts = read_facts(library.named("attention_bwd_sm_90a_head_dim64_bf16_ordered.py"))
    told = [name for name, *_ in facts.turns]
    assert told
    there = {extent for parameter in facts.tensors for extent in parameter.extents}
    sizes = {extent: SIZES.get(extent, 64) for extent in there}
    tensors = recording.inputs(facts, sizes, CPU)
    for tensor in tensors.values():
        tensor.fill_(1)
    turns.begin(facts, tensors)
    assert {name for name, tensor in tensors.items() if not tensor.any()} == set(told)


def test_kernels_without_turns() -> None:
    facts = read_facts(library.named("attention_bwd_sm_90a_head_dim64_bf16.py"))
    turns.begin(facts, {})
