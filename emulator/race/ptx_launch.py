"""A PTX file with the description of a launch: memory, parameters, execution, comparison."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from schedgen.emulator.launch.capture import Allocation, Launch, Parameters
from schedgen.emulator.launch.targets import target
from schedgen.emulator.launch.tensor_map import Element, TensorMap, TensorMapError
from schedgen.emulator.launch.tensor_map_bits import encode
from schedgen.emulator.layouts.swizzle import Swizzle
from schedgen.emulator.ptx.parse import parse
from schedgen.emulator.ptx.tree import Kernel
from schedgen.emulator.race.launch_file import LaunchFile, Parameter, Tensor, read
from schedgen.emulator.race.programs import Ended
from schedgen.emulator.race.session import LimitReached, Session
from schedgen.errors import SchedgenError

Array = NDArray[np.generic]
_ALIGNMENT = 512
_MAPPED = {
    "uint8": Element.U8, "int8": Element.U8, "uint16": Element.U16, "int16": Element.U16,
    "uint32": Element.U32, "int32": Element.S32, "uint64": Element.U64, "int64": Element.S64,
    "float16": Element.F16, "bfloat16": Element.BF16, "float32": Element.F32,
    "float64": Element.F64,
}  # fmt: skip
_SWIZZLES = {"none": Swizzle.NONE, "32B": Swizzle.B32, "64B": Swizzle.B64, "128B": Swizzle.B128}


@dataclass(frozen=True)
class Prepared:
    """A launch with its memory. ``keep`` are the tensors by name, as bytes of their elements."""

    launch: Launch
    keep: dict[str, NDArray[np.uint8]]
    values: tuple[object, ...]


def run(ptx: Path, description: Path, session: Session, sms: int) -> Ended:
    """Executes the launch that `description` says of a kernel of `ptx`, in `session`.

    Returns how it ended: status 1 if the launch failed, or left something else than expected.

    Raises:
        SpecError, PtxError: a file is wrong.
        SchedgenError: a file cannot be read.
    """
    file = read(description)
    prepared = _prepared(text_of(ptx), str(ptx), file, sms)
    try:
        session.run(prepared.launch)
    except LimitReached as limit:
        return Ended(limited=str(limit))
    except SchedgenError:
        return Ended(1)  # the session has it
    wrong = [
        text
        for name, tensor in file.described.tensors.items()
        if (text := _differs(name, tensor, prepared.keep[name], file.folder))
    ]
    return Ended(1 if wrong else 0, "\n".join(wrong))


def text_of(path: Path) -> str:
    """The text of a PTX file.

    Raises:
        SchedgenError: it cannot be read.
    """
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise SchedgenError(f"{path}: {reason}; fix: give a file of PTX text") from None


def _prepared(text: str, name: str, file: LaunchFile, sms: int) -> Prepared:
    module = parse(text, name)
    described = file.described
    kernel = _kernel(module.kernels, name, file)
    keep = {
        key: _memory(file, key, tensor, seed)
        for seed, (key, tensor) in enumerate(described.tensors.items())
    }
    values = [
        ctypes.create_string_buffer(data, len(data))
        for data in (_value(file, at, one, keep) for at, one in enumerate(described.parameters))
    ]
    _check(kernel, [len(value) for value in values], file)
    addresses = (ctypes.c_void_p * max(1, len(values)))(*map(ctypes.addressof, values))
    allocations = sorted(
        (Allocation(int(data.ctypes.data), data.nbytes, key) for key, data in keep.items()),
        key=lambda one: one.start,
    )
    launch = Launch(
        kernel.name, described.grid, described.block, described.cluster, described.shared_bytes,
        text, target(module.target, sms), tuple(allocations), {},
        Parameters(ctypes.addressof(addresses)),
    )  # fmt: skip
    launch.check()
    return Prepared(launch, keep, (values, addresses))


def _kernel(kernels: dict[str, Kernel], ptx: str, file: LaunchFile) -> Kernel:
    name = file.described.kernel
    names = ", ".join(kernels) or "none"
    if name is None:
        if len(kernels) != 1:
            text = f"{ptx} has {len(kernels)} kernels, and the launch does not say which"
            raise file.error("launch-kernel", text, [], f"add 'kernel': one of {names}")
        return next(iter(kernels.values()))
    if name not in kernels:
        text = f"{ptx} has no kernel '{name}'"
        raise file.error("launch-kernel", text, ["kernel"], f"it has {names}")
    return kernels[name]


def _check(kernel: Kernel, sizes: list[int], file: LaunchFile) -> None:
    wanted = [one.size for one in kernel.parameters]
    if len(sizes) != len(wanted):
        text = f"{len(sizes)} parameters, the kernel has {len(wanted)}"
        fix = f"their sizes are {', '.join(map(str, wanted))} bytes"
        raise file.error("launch-parameters", text, ["parameters"], fix)
    for at, (size, parameter) in enumerate(zip(sizes, kernel.parameters, strict=True)):
        if size != parameter.size:
            text = f"parameter {at} has {size} bytes, {parameter.name} has {parameter.size}"
            fix = "give a value of another dtype, or its bytes"
            raise file.error("launch-parameters", text, ["parameters", at], fix)


def _memory(file: LaunchFile, name: str, tensor: Tensor, seed: int) -> NDArray[np.uint8]:
    """The bytes of a tensor, at an address as CUDA's."""
    path: list[str | int] = ["tensors", name]
    if tensor.file is not None:
        content = _load(file, tensor.file, [*path, "file"])
        if content.size != np.prod(tensor.shape):
            text = f"{tensor.file} has {content.size} elements, the shape {np.prod(tensor.shape)}"
            raise file.error("launch-file", text, [*path, "file"], "give the shape of the file")
    elif tensor.fill == "random":
        random = np.random.default_rng(seed)
        whole = tensor.dtype.startswith(("int", "uint"))
        low = 0 if tensor.dtype.startswith("uint") else -8
        content = (
            random.integers(low, 9, tensor.shape) if whole else random.normal(size=tensor.shape)
        )
    elif tensor.fill == "arange":
        content = np.arange(int(np.prod(tensor.shape)))
    else:
        content = np.full(tensor.shape, tensor.fill)
    data = _bytes(content, tensor.dtype)
    room = np.zeros(data.nbytes + 2 * _ALIGNMENT, np.uint8)
    first = -room.ctypes.data % _ALIGNMENT
    view = room[first : first + data.nbytes]
    view[:] = data
    return view


def _load(file: LaunchFile, name: str, path: list[str | int]) -> Array:
    try:
        found: Array = np.load(file.folder / name, allow_pickle=False)
    except (OSError, ValueError) as error:
        text = f"{name} cannot be read: {error}"
        raise file.error("launch-file", text, path, "give a .npy file beside the launch") from None
    return found


def _bytes(content: Array, dtype: str) -> NDArray[np.uint8]:
    """Elements of a type; bfloat16 is rounded to nearest even."""
    flat = np.ascontiguousarray(content).reshape(-1)
    if dtype != "bfloat16":
        return flat.astype(dtype).view(np.uint8)
    bits = flat.astype(np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return rounded.astype(np.uint16).view(np.uint8)


def _numbers(data: NDArray[np.uint8], dtype: str) -> NDArray[np.float64]:
    if dtype == "bfloat16":
        wide = data.view(np.uint16).astype(np.uint32) << 16
        return wide.view(np.float32).astype(np.float64)
    return data.view(dtype).astype(np.float64)


def _value(
    file: LaunchFile, at: int, parameter: Parameter, keep: dict[str, NDArray[np.uint8]]
) -> bytes:
    if parameter.tensor is not None:
        return int(keep[parameter.tensor].ctypes.data).to_bytes(8, "little")
    if parameter.value is not None:
        assert parameter.dtype is not None
        return _bytes(np.array([parameter.value]), parameter.dtype).tobytes()
    if parameter.bytes is not None:
        try:
            return bytes.fromhex(parameter.bytes)
        except ValueError:
            path: list[str | int] = ["parameters", at, "bytes"]
            text = f"'{parameter.bytes:.40}' is not hexadecimal"
            raise file.error("launch-value", text, path, "write two digits per byte") from None
    assert parameter.tensor_map is not None
    return _map(file, at, parameter, keep[parameter.tensor_map])


def _map(file: LaunchFile, at: int, parameter: Parameter, data: NDArray[np.uint8]) -> bytes:
    tensor = file.described.tensors[str(parameter.tensor_map)]
    box = parameter.box or ()
    path: list[str | int] = ["parameters", at, "box"]
    if len(box) != len(tensor.shape):
        text = f"the box has {len(box)} dimensions, the tensor {len(tensor.shape)}"
        raise file.error("launch-box", text, path, "give an extent for each dimension")
    size = data.nbytes // int(np.prod(tensor.shape))
    dims = tuple(reversed(tensor.shape))
    strides = tuple(int(size * np.prod(dims[:rank])) for rank in range(1, len(dims)))
    made = TensorMap(
        int(data.ctypes.data), _MAPPED[tensor.dtype], dims, strides, tuple(reversed(box)),
        (1,) * len(dims), _SWIZZLES[parameter.swizzle],
    )  # fmt: skip
    try:
        return encode(made)
    except TensorMapError as error:
        raise file.error("launch-box", str(error), path, "change box or swizzle") from None


def _differs(name: str, tensor: Tensor, data: NDArray[np.uint8], folder: Path) -> str:
    """How a tensor differs from what is expected; empty if it does not, or nothing is."""
    if tensor.expect is None:
        return ""
    wanted = np.load(folder / tensor.expect, allow_pickle=False).astype(np.float64).reshape(-1)
    found = _numbers(data, tensor.dtype)
    if wanted.size != found.size:
        return f"{name}: {tensor.expect} has {wanted.size} elements, the tensor {found.size}"
    allowed = tensor.tolerance * float(np.abs(np.nan_to_num(wanted)).max(initial=0.0))
    off = ~(np.abs(found - wanted) <= allowed) & ~(np.isnan(found) & np.isnan(wanted))
    if not off.any():
        return ""
    first = int(np.argmax(off))
    return (
        f"{name}: {int(off.sum())} of {off.size} elements differ from {tensor.expect}; element "
        f"{first} is {found[first]:g}, expected {wanted[first]:g}"
    )
