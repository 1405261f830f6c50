"""Micro-kernels for `emulate_hardware`: PTX that runs on a GPU and in the emulator alike.

Every case is one launch of a kernel ``k`` on arrays. Results go into its outputs, which begin with
a pattern, so that what is not written is compared too. Text helpers keep to these registers:
%r0 shared memory, %r1 mbarriers, %r2 thread, %r3 rank in the cluster, %p0 thread 0; %r4 to %r19
and %rd0 to %rd19 are scratch of the helpers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schedgen.emulator.launch.tensor_map import Element, TensorMap

Array = NDArray[Any]
SHARED = 40 * 1024
EXACT = "bits"
FINISH = "@%p0 cp.async.bulk.commit_group; @%p0 cp.async.bulk.wait_group 0;"
_PATTERN = 0xA5
_labels = count()


@dataclass(frozen=True)
class Micro:
    """One launch.

    Attributes:
        about: what of the emulator it confirms.
        text: body of the kernel; parameters are named as arrays and maps.
        inputs: arrays; those that are results as well are in ``outputs``.
        outputs: initial contents of what is compared.
        maps: tensor map parameter -> array that it describes and the map, whose address is 0.
        rule: `EXACT`, or in words what difference is allowed.
        kind: data type as which results are compared if not by their bits.
        allowed: difference allowed for each element.
    """

    name: str
    about: str
    text: str
    inputs: Mapping[str, Array] = field(default_factory=dict[str, Array])
    outputs: Mapping[str, Array] = field(default_factory=dict[str, Array])
    maps: Mapping[str, tuple[str, TensorMap]] = field(
        default_factory=dict[str, tuple[str, TensorMap]]
    )
    threads: int = 128
    cluster: int = 1
    rule: str = EXACT
    kind: str = "u1"
    allowed: Array | float = 0.0

    @property
    def source(self) -> str:
        """The whole module."""
        arrays = [f".param .u64 {name}" for name in (*self.inputs, *self.outputs)]
        maps = [f".param .align 64 .b8 {name}[128]" for name in self.maps]
        cluster = f".explicitcluster .reqnctapercluster {self.cluster}, 1, 1"
        return f""".version 8.8
.target sm_90a
.address_size 64
.visible .entry k({", ".join(arrays + maps)})
.reqntid {self.threads}, 1, 1
{cluster if self.cluster > 1 else ""}
{{
.reg .b32 %r<600>; .reg .b64 %rd<60>; .reg .b16 %rs<20>; .reg .pred %p<20>;
.shared .align 1024 .b8 smem[{SHARED}];
.shared .align 16 .b8 bars[64];
mov.u32 %r0, smem; mov.u32 %r1, bars; mov.u32 %r2, %tid.x; mov.u32 %r3, %cluster_ctarank;
setp.eq.u32 %p0, %r2, 0;
{self.text}
ret;
}}
"""


def aligned(shape: tuple[int, ...], dtype: Any) -> Array:
    """An array of zeros at a multiple of 128 bytes, as bulk copies want it."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    room = np.zeros(size + 128, np.uint8)
    first = -int(room.ctypes.data) % 128
    return room[first : first + size].view(dtype).reshape(shape)


def blank(shape: tuple[int, ...], dtype: Any = np.uint32) -> Array:
    """An array of a pattern."""
    array = aligned(shape, dtype)
    array.view(np.uint8)[...] = _PATTERN
    return array


def filled(values: Array) -> Array:
    """An aligned copy."""
    array = aligned(values.shape, values.dtype)
    array[...] = values
    return array


def numbered(shape: tuple[int, ...], dtype: Any, first: int = 1) -> Array:
    """Different values, as far as the type has them."""
    array = aligned(shape, dtype)
    top = min(np.iinfo(dtype).max, 1 << 30)
    array[...] = ((np.arange(array.size) + first) % top).astype(dtype).reshape(shape)
    return array


def reals(random: np.random.Generator, shape: tuple[int, int], element: Element) -> Array:
    """Normal numbers as codes of f16, bf16 or f32."""
    values = (random.standard_normal(shape) * 8).astype(np.float32)
    match element:
        case Element.F16:
            return filled(values.astype(np.float16))
        case Element.BF16:
            return filled((values.view(np.uint32) >> np.uint32(16)).astype(np.uint16))
        case _:
            return filled(values)


def described(array: Array, element: Element, box: tuple[int, ...], **more: Any) -> TensorMap:
    """The map of a C-ordered array, at address 0."""
    return TensorMap(
        address=0,
        element=element,
        dims=array.shape[::-1],
        strides=array.strides[-2::-1],
        box=box,
        element_strides=more.pop("steps", (1,) * array.ndim),
        **more,
    )


def map_at(name: str, register: str = "%rd0") -> str:
    """The address of a tensor map parameter."""
    return f"mov.b64 {register}, {name}; cvta.param.u64 {register}, {register};"


def barrier(arrivals: int = 1, *, cluster: bool = False, number: int = 1) -> str:
    """Initialized mbarriers, known to all threads."""
    inits = "".join(
        f"@%p0 mbarrier.init.shared::cta.b64 [%r1+{8 * n}], {arrivals};\n" for n in range(number)
    )
    return f"{inits} @%p0 fence.mbarrier_init.release.cluster; {everyone(cluster=cluster)}"


def everyone(*, cluster: bool = False) -> str:
    """A barrier of all threads."""
    if cluster:
        return "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
    return "bar.sync 0;"


def expect(size: int) -> str:
    return f"@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], {size};"


def wait(parity: int = 0, at: int = 0, scope: str = "cta") -> str:
    """All threads wait, but not forever: a result that is wrong says more than a hang."""
    n = next(_labels)
    return f"""mov.b32 %r18, 0;
W{n}: mbarrier.try_wait.parity.acquire.{scope}.shared::cta.b64 %p19, [%r1+{at}], {parity};
@%p19 bra D{n}; add.u32 %r18, %r18, 1; setp.lt.u32 %p19, %r18, 100000; @%p19 bra W{n};
D{n}:"""


def _walk(name: str, size: int, threads: int, at: int) -> tuple[str, range]:
    """%rd4: the thread's place in an array with ``size`` bytes per CTA; %r4: in shared memory."""
    assert size % (4 * threads) == 0, (size, threads)
    return (
        f"""ld.param.u64 %rd4, [{name}]; mul.wide.u32 %rd5, %r3, {size}; add.u64 %rd4, %rd4, %rd5;
mul.wide.u32 %rd5, %r2, 4; add.u64 %rd4, %rd4, %rd5; shl.b32 %r4, %r2, 2; add.u32 %r4, %r4, %r0;
add.u32 %r4, %r4, {at};
""",
        range(0, size, 4 * threads),
    )


def dump(size: int, name: str = "out", threads: int = 128, at: int = 0) -> str:
    """All threads copy shared memory to an array by plain loads and stores."""
    head, steps = _walk(name, size, threads, at)
    return head + "".join(
        f"ld.shared.b32 %r5, [%r4+{i}]; st.global.b32 [%rd4+{i}], %r5;\n" for i in steps
    )


def bring(size: int, name: str = "data", threads: int = 128, at: int = 0) -> str:
    """All threads copy an array to shared memory, for whoever reads it by whatever proxy."""
    head, steps = _walk(name, size, threads, at)
    moves = "".join(
        f"ld.global.b32 %r5, [%rd4+{i}]; st.shared.b32 [%r4+{i}], %r5;\n" for i in steps
    )
    return f"{head}{moves} fence.proxy.async; bar.sync 0;"


def keep(registers: list[str], name: str = "out", threads: int = 128) -> str:
    """Every thread stores its 32-bit registers: (register, rank, thread)."""
    stores = "".join(
        f"st.global.b32 [%rd4+{4 * threads * n}], {register};\n"
        for n, register in enumerate(registers)
    )
    return f"""ld.param.u64 %rd4, [{name}]; mul.wide.u32 %rd5, %r3, {4 * threads * len(registers)};
add.u64 %rd4, %rd4, %rd5; mul.wide.u32 %rd5, %r2, 4; add.u64 %rd4, %rd4, %rd5;
{stores}"""
