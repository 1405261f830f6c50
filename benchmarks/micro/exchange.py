"""Micro-kernels about distributed shared memory, plain bulk copies, cp.async and mbarriers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from micro.launch import (
    FINISH,
    Micro,
    barrier,
    blank,
    bring,
    described,
    dump,
    everyone,
    expect,
    filled,
    keep,
    map_at,
    numbered,
    reals,
    wait,
)

from schedgen.emulator.launch.tensor_map import Element
from schedgen.emulator.layouts.swizzle import Swizzle


def clusters() -> Iterator[Micro]:
    """Two CTAs."""
    source = numbered((16, 64), np.uint16)
    box = described(source, Element.F16, (64, 8), swizzle=Swizzle.B128)
    text = f"""{barrier(cluster=True)} {map_at("m")} {expect(2048)} mov.b32 %r20, 0;
shl.b32 %r21, %r3, 3; shl.b32 %r22, %r3, 10; add.u32 %r22, %r22, %r0; mov.b16 %rs0, 3;
@%p0 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes\
.multicast::cluster [%r22], [%rd0, {{%r20, %r21}}], [%r1], %rs0;
{wait(scope="cluster")} {dump(2048)} {everyone(cluster=True)}"""
    out = blank((4096,), np.uint8)
    about = "each CTA's copy reaches both, with bytes at both mbarriers"
    yield Micro("tma_multicast", about, text, {"a": source}, {"out": out}, {"m": ("a", box)},
                cluster=2)  # fmt: skip
    text = f"""{everyone(cluster=True)} xor.b32 %r20, %r3, 1;
mapa.shared::cluster.u32 %r21, %r0, %r20;
mul.lo.u32 %r22, %r3, 1000; add.u32 %r22, %r22, %r2; shl.b32 %r23, %r2, 2; add.u32 %r24, %r21, %r23;
st.shared::cluster.b32 [%r24], %r22; {everyone(cluster=True)} ld.shared::cluster.b32 %r25, [%r24];
add.u32 %r26, %r0, %r23; ld.shared.b32 %r27, [%r26]; {everyone(cluster=True)}
atom.shared::cluster.add.u32 %r28, [%r24], 5; {everyone(cluster=True)} ld.shared.b32 %r29, [%r26];
shr.u32 %r30, %r21, 24; {everyone(cluster=True)} {keep(["%r25", "%r27", "%r28", "%r29", "%r30"])}"""
    yield Micro("dsmem", "mapa, st, ld and atom in the other CTA; the rank is in bits 24 and up",
                text, outputs={"out": blank((2 * 5 * 128,))}, cluster=2)  # fmt: skip
    text = f"""{barrier(cluster=True)} {expect(512)} xor.b32 %r20, %r3, 1;
mapa.shared::cluster.u32 %r21, %r0, %r20; mapa.shared::cluster.u32 %r22, %r1, %r20;
shl.b32 %r23, %r2, 2; add.u32 %r21, %r21, %r23; mul.lo.u32 %r24, %r3, 1000; add.u32 %r24, %r24, %r2;
st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r21], %r24, [%r22];
{wait(scope="cluster")} {dump(512)} {everyone(cluster=True)}"""
    yield Micro("st_async", "stores to the other CTA that count at its mbarrier", text,
                outputs={"out": blank((1024,), np.uint8)}, cluster=2)  # fmt: skip
    text = f"""{barrier(cluster=True)} {bring(1024)} {expect(1024)} xor.b32 %r20, %r3, 1;
add.u32 %r23, %r0, 2048; mapa.shared::cluster.u32 %r21, %r23, %r20;
mapa.shared::cluster.u32 %r22, %r1, %r20; {everyone(cluster=True)}
@%p0 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r21], [%r0], 1024, \
[%r22]; {wait(scope="cluster")} {dump(1024, at=2048)} {everyone(cluster=True)}"""
    yield Micro("bulk_to_the_other_cta", "bulk copies between CTAs", text,
                {"data": numbered((2048,), np.uint8)}, {"out": blank((2048,), np.uint8)},
                cluster=2)  # fmt: skip
    text = f"""{barrier(128, cluster=True)} xor.b32 %r20, %r3, 1;
mapa.shared::cluster.u32 %r22, %r1, %r20; shl.b32 %r23, %r2, 2; add.u32 %r24, %r0, %r23;
mapa.shared::cluster.u32 %r25, %r24, %r20; st.shared::cluster.b32 [%r25], %r2;
mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r22]; {wait(scope="cluster")}
{dump(512)} {everyone(cluster=True)}"""
    yield Micro("remote_arrive", "arrivals at the other CTA's mbarrier", text,
                outputs={"out": blank((1024,), np.uint8)}, cluster=2)  # fmt: skip


def plain() -> Iterator[Micro]:
    """Without tensor maps."""
    data = numbered((4096,), np.uint8)
    text = f"""{barrier()} ld.param.u64 %rd6, [data]; ld.param.u64 %rd7, [c]; {expect(2048)}
@%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r0+512], [%rd6+16], 2048, \
[%r1]; {wait()}
@%p0 cp.async.bulk.global.shared::cta.bulk_group [%rd7+32], [%r0+528], 1024; {FINISH}
{dump(2048, at=512)}"""
    outputs = {"c": blank((2048,), np.uint8), "out": blank((2048,), np.uint8)}
    yield Micro("bulk_there_and_back", "bulk copies", text, {"data": data}, outputs)
    for kind, dtype, operation in (
        ("f16", np.float16, "add.noftz"), ("bf16", np.uint16, "add.noftz"),
        ("f32", np.float32, "add"), ("s32", np.int32, "min"), ("u64", np.uint64, "add"),
    ):  # fmt: skip
        random = np.random.default_rng(2)
        old, new = (
            filled((random.standard_normal(1024) * 8).astype(np.float32)) if kind == "f32"
            else reals(random, (32, 32), Element.F16) if kind == "f16"
            else reals(random, (32, 32), Element.BF16) if kind == "bf16"
            else filled(random.integers(0, 1 << 30, 512).astype(dtype))
            for _ in range(2)
        )  # fmt: skip
        text = f"""{bring(1024)} ld.param.u64 %rd7, [c];
@%p0 cp.reduce.async.bulk.global.shared::cta.bulk_group.{operation}.{kind} [%rd7], [%r0], 1024;
{FINISH}"""
        yield Micro(f"bulk_reduce_{kind}", "bulk reductions", text, {"data": new}, {"c": old})
    copies = "".join(
        f"cp.async.ca.shared.global [%r21+{2048 * n}], [%rd8+{2048 * n}], {size}{source};\n"
        for n, (size, source) in enumerate(((16, ""), (16, ", %r22"), (8, ", 5"), (4, "")))
    )
    text = f"""{barrier(128)} ld.param.u64 %rd6, [data]; mul.wide.u32 %rd7, %r2, 16;
add.u64 %rd8, %rd6, %rd7; shl.b32 %r21, %r2, 4; add.u32 %r21, %r21, %r0; and.b32 %r22, %r2, 15;
mov.b32 %r23, -1; {
        "".join(
            f"st.shared.b32 [%r21+{2048 * n + i}], %r23;" for n in range(4) for i in range(0, 16, 4)
        )
    }
bar.sync 0; {copies} cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r1]; {wait()} {dump(8192)}"""
    yield Micro("cp_async", "sizes, and zeros behind what is read", text,
                {"data": numbered((8192,), np.uint8)},
                {"out": blank((8192,), np.uint8)})  # fmt: skip
    yield states()


def states() -> Micro:
    """What test_wait says of both parities, and pending_count, after each step of one thread."""
    steps = (
        "mbarrier.arrive.noComplete.shared::cta.b64 %rd9, [%r1], 1;",
        "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r1], 64;",
        "mbarrier.arrive.shared::cta.b64 %rd9, [%r1];",
        "mbarrier.arrive.expect_tx.shared::cta.b64 %rd9, [%r1], 32;",
        "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r1], 64;",
        "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r1], 32;",
        "mbarrier.arrive_drop.shared::cta.b64 %rd9, [%r1];",
        "mbarrier.arrive.shared::cta.b64 %rd9, [%r1], 2;",
        "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r1], 16;",
        "mbarrier.arrive.shared::cta.b64 %rd9, [%r1];",
        "mbarrier.arrive.expect_tx.shared::cta.b64 %rd9, [%r1], 16;",
    )
    text = ["@!%p0 bra END; mbarrier.init.shared::cta.b64 [%r1], 3;"]
    for n, step in enumerate(steps):
        text.append(step)
        for parity in (0, 1):
            text.append(f"""mbarrier.test_wait.parity.shared::cta.b64 %p2, [%r1], {parity};
selp.b32 %r{30 + 2 * n + parity}, 1, 0, %p2;""")
    text.append("mbarrier.inval.shared::cta.b64 [%r1]; END:")
    kept = [f"%r{30 + n}" for n in range(2 * len(steps))]
    text.insert(0, "".join(f"mov.b32 {register}, 7;" for register in kept))
    return Micro(
        "mbarrier_phases", "pending and transaction counts, phases, drops", "\n".join(text)
        + keep(kept, threads=32), outputs={"out": blank((32 * len(kept),))}, threads=32,
    )  # fmt: skip


def cases() -> Iterator[Micro]:
    """All of them."""
    yield from clusters()
    yield from plain()
