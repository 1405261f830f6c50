"""Memory that arguments give a kernel."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

import cutlass
import numpy as np
import pytest
import torch
from cutlass.cute.runtime import from_dlpack

from schedgen.emulator.launch.arguments import allocations, disjoint, storage
from schedgen.emulator.launch.capture import Allocation
from schedgen.emulator.launch.dsl import load
from schedgen.emulator.launch.errors import LaunchError


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclass
class Options:
    tensor: Any
    count: int


def ranges(**arguments: Any) -> list[tuple[str, int, int]]:
    return [(one.name, one.start, one.size) for one in allocations(load(), arguments.items())]


def test_tensors_give_what_is_between_first_and_last_element() -> None:
    base = torch.zeros(10, 20)
    view = base[2:5, 1:4]
    expected = base.data_ptr() + 4 * (2 * 20 + 1), 4 * (2 * 20 + 3)
    assert ranges(a=view) == [("a", *expected)]
    assert ranges(a=view.numpy()) == [("a", *expected)]
    assert ranges(a=from_dlpack(view)) == [("a", *expected)]
    assert ranges(a=from_dlpack(view).mark_layout_dynamic(leading_dim=1)) == [("a", *expected)]
    assert ranges(a=base[:0]) == []


def test_elements_below_a_byte() -> None:
    packed = from_dlpack(torch.zeros(4, 32, dtype=torch.int8))
    packed.element_type = cutlass.Float4E2M1FN
    assert ranges(a=packed)[0][2] == 4 * 32 // 2


def test_containers_are_searched() -> None:
    one, two, three = (torch.zeros(n) for n in (1, 2, 3))
    found = ranges(pair=Pair(one, 7), many=[{"x": two}, "text", None], options=Options(three, 1))
    assert [(name, size) for name, _, size in found] == [
        ("pair[0]", 4),
        ("many[0]['x']", 8),
        ("options.tensor", 12),
    ]


def test_other_devices_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LaunchError, match=r"'a' is on device 'meta'.*\.cpu\(\)"):
        ranges(a=torch.zeros(4, device="meta"))
    tensor: Any = from_dlpack(torch.zeros(4))
    tensor.load_dltensor()
    seen = tensor._dltensor_wrapper
    values = {name: getattr(seen, name) for name in ("data_ptr", "shape", "stride", "dtype")}
    tensor._dltensor_wrapper = SimpleNamespace(**values, address_space=1)
    assert len(ranges(a=tensor)) == 1  # as of a tensor on the CPU that pretends
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(LaunchError, match="'a' is on device 'cuda'"):
        ranges(a=tensor)


def test_storage_of_views() -> None:
    base = torch.zeros(10)
    assert storage(base[4:], "x") == Allocation(base.data_ptr(), 40, "x")
    array = np.zeros(4, np.int16)
    assert storage(array, "y") == Allocation(array.ctypes.data, 8, "y")
    with pytest.raises(LaunchError, match="x is a list; give a torch tensor or a numpy array"):
        storage([1], "x")
    with pytest.raises(LaunchError, match="'meta'"):
        storage(torch.zeros(4, device="meta"), "x")


def test_overlapping_allocations_are_joined() -> None:
    found = disjoint(
        [
            Allocation(200, 10, "c"),
            Allocation(100, 10, "a"),
            Allocation(105, 10, "b"),
            Allocation(106, 2, "a"),
            Allocation(115, 5, "d"),
            Allocation(0, 0, "empty"),
        ]
    )
    assert found == (
        Allocation(100, 15, "a, b"),
        Allocation(115, 5, "d"),
        Allocation(200, 10, "c"),
    )
    assert found[0].end == found[1].start
