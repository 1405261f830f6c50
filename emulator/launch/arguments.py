"""Which memory the arguments of a call give a kernel."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from math import prod
from typing import Any, cast

import numpy as np
import torch

from schedgen.emulator.launch.capture import Allocation
from schedgen.emulator.launch.dsl import Dsl
from schedgen.emulator.launch.errors import LaunchError

Named = Iterable[tuple[str, Any]]


def allocations(dsl: Dsl, arguments: Named) -> list[Allocation]:
    """Return the memory of all tensors in `arguments`, which may be nested in containers.

    A tensor gives the bytes from its first to its last element, so that a view does not give the
    rest of its storage. A bare pointer does not say how much it points to: it gives the storage
    of the torch tensor that it points into, if there is one alive.

    Raises:
        LaunchError: a tensor is not in CPU memory.
    """
    found: list[Allocation] = []
    pointers: list[tuple[int, str]] = []
    for name, value in _flat(dsl, arguments):
        if isinstance(value, torch.Tensor):
            _refuse_device(name, value.device.type)
            found += _strided(
                name, value.data_ptr(), value.shape, value.stride(), 8 * value.element_size()
            )
        elif isinstance(value, np.ndarray):
            found.append(_bounds(value, name))
        elif isinstance(value, dsl.tensor):
            _refuse_device(name, _device(value))
            found += _strided(
                name, value.data_ptr, value.shape, value.stride, value.element_type.width
            )
        elif isinstance(value, dsl.pointer):
            (slot,) = value.__c_pointers__()
            pointers.append((ctypes.c_uint64.from_address(slot).value, name))
    return found + _storages(pointers)


def storage(value: Any, name: str) -> Allocation:
    """Return all memory that backs a torch tensor or numpy array.

    Raises:
        LaunchError: it is something else, or not in CPU memory.
    """
    if isinstance(value, torch.Tensor):
        _refuse_device(name, value.device.type)
        kept = value.untyped_storage()
        return Allocation(kept.data_ptr(), kept.nbytes(), name)
    if isinstance(value, np.ndarray):
        return _bounds(value, name)
    raise LaunchError(f"{name} is a {type(value).__name__}; give a torch tensor or a numpy array")


def disjoint(found: Iterable[Allocation]) -> tuple[Allocation, ...]:
    """Return the same bytes, ascending, with overlapping allocations joined into one."""
    result: list[Allocation] = []
    for one in sorted((one for one in found if one.size), key=lambda one: (one.start, one.end)):
        last = result[-1] if result else None
        if last is None or one.start >= last.end:
            result.append(one)
            continue
        names = last.name if one.name in last.name.split(", ") else f"{last.name}, {one.name}"
        size = max(last.end, one.end) - last.start
        result[-1] = Allocation(last.start, size, names)
    return tuple(result)


def _bounds(value: Any, name: str) -> Allocation:
    low, high = np.lib.array_utils.byte_bounds(value)
    return Allocation(low, high - low, name)


def _flat(dsl: Dsl, arguments: Named) -> Iterator[tuple[str, Any]]:
    for name, value in arguments:
        if isinstance(value, (torch.Tensor, np.ndarray, dsl.tensor, dsl.pointer)):
            yield name, value
        else:
            yield from _flat(dsl, [(f"{name}{key}", part) for key, part in _parts(value)])


def _parts(value: Any) -> list[tuple[str, Any]]:
    """Return what a container has, with how to get at it."""
    if isinstance(value, Mapping):
        return [(f"[{key!r}]", part) for key, part in cast(Mapping[Any, Any], value).items()]
    if isinstance(value, (tuple, list)):
        return [(f"[{at}]", part) for at, part in enumerate(cast(list[Any], value))]
    if is_dataclass(value):
        return [(f".{field.name}", getattr(value, field.name)) for field in fields(value)]
    return []


def _strided(
    name: str, start: int, shape: Iterable[int], strides: Iterable[int], bits: int
) -> list[Allocation]:
    extents = tuple(shape)
    if not prod(extents):
        return []
    last = sum((n - 1) * step for n, step in zip(extents, strides, strict=True))
    return [Allocation(start, ((last + 1) * bits + 7) // 8, name)]


def _storages(pointers: list[tuple[int, str]]) -> list[Allocation]:
    """Return the storages of living torch tensors that `pointers`, addresses with names, hit."""
    if not pointers:
        return []
    found: list[Allocation] = []
    for candidate in gc.get_objects():
        if not issubclass(type(candidate), torch.Tensor) or candidate.device.type != "cpu":
            continue
        try:
            kept = candidate.untyped_storage()
        except NotImplementedError:  # a sparse one
            continue
        if kept.device.type == "meta":  # a fake one
            continue
        start, size = kept.data_ptr(), kept.nbytes()
        found += [
            Allocation(start, size, name)
            for address, name in pointers
            if start <= address < start + size
        ]
    return found


def _device(tensor: Any) -> str:
    """Return where a tensor of the DSL is. On a machine without a GPU, claims to be on one lie."""
    tensor.load_dltensor()
    claims_gpu = tensor._dltensor_wrapper.address_space != 0
    return "cuda" if claims_gpu and torch.cuda.is_available() else "cpu"


def _refuse_device(name: str, device: str) -> None:
    if device != "cpu":
        raise LaunchError(
            f"'{name}' is on device '{device}', the emulator needs tensors on the CPU; pass the "
            "result of .cpu()"
        )
