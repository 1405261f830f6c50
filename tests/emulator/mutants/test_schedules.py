"""Schedules for one instruction, and what the campaign makes of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from schedgen.benchmarks.mutants.kernels import UNREPEATED
from schedgen.emulator.awaited import starved
from schedgen.emulator.emulation import Emulator
from schedgen.emulator.machine.lanes import EmulationError
from schedgen.emulator.machine.policies import Held, Policy, Rushed, Starved
from schedgen.emulator.machine.switches import Switches, Uninitialized
from schedgen.emulator.ptx.tree import Kernel
from tests.emulator.mutants.campaigns import benchmark, campaign, line

LAST = """@!%p1 mbarrier.init.shared.b64 [bar], 32;
bar.sync 0;
@%p2 bra ARRIVES;
W:
mbarrier.try_wait.parity.shared.b64 %p3, [bar], 0;
@!%p3 bra W;
bra END;
ARRIVES:
mbarrier.arrive.shared.b64 _, [bar];
END:
"""
"""Warp 0 waits for warp 1 and does nothing after it."""
SOONER = 2
"""A seed with which warp 0 comes to the wait before warp 1 arrives."""


def execute(kernel: Kernel, policy: Policy) -> None:
    one = campaign(LAST)
    emulator = Emulator(
        policy, "first", Switches(),
        rewrite=lambda module: replace(module, kernels={**module.kernels, "k": kernel}),
    )  # fmt: skip
    one.execute(0, emulator)


def test_a_wait_for_the_wrong_phase_returns_early_but_not_late() -> None:
    one = campaign(LAST)
    mutant = next(m for m in one.mutants if m.operator == "M10 parity flipped")
    at = mutant.place()
    assert at is not None
    execute(mutant.kernel, Rushed(SOONER, [at]))
    with pytest.raises(EmulationError, match="deadlock"):
        execute(mutant.kernel, Held(0, [at]))
    at = mutant.original.body.index(mutant.instruction)
    execute(mutant.original, Held(0, [at]))
    execute(mutant.original, Rushed(SOONER, [at]))


def test_the_campaign_finds_it() -> None:
    one = campaign(LAST)
    ends = {m.operator: one.end(m).end for m in one.mutants}
    assert ends["unchanged"] == "undetected"
    assert ends["M10 parity flipped"] == "deadlock"
    assert ends["M15 wait removed"] == "undetected"


def test_place_of_what_is_left() -> None:
    one = campaign(LAST)
    places = {m.operator: m.place() for m in one.mutants}
    assert places["M10 parity flipped"] is not None
    assert places["arrive removed"] is None


def test_one_that_spins_is_not_held_for_ever() -> None:
    """Warp 1 spins without an event until warp 0, which is held, has written."""
    text = """@%p2 bra SPINS;
mov.b32 %r7, 1;
st.volatile.shared.b32 [data], %r7;
bra END;
SPINS:
ld.volatile.shared.b32 %r7, [data];
setp.eq.s32 %p3, %r7, 0;
@%p3 bra SPINS;
END:
"""
    one = campaign(f"@!%p1 st.volatile.shared.b32 [data], %r8;\nbar.sync 0;\n{text}")
    kernel = one.kernels[0]
    at = next(n for n, i in enumerate(kernel.body) if i.name.startswith("mov.b32") and n > 12)
    emulator = Emulator(Held(0, [at]), "off", Switches())
    one.execute(0, emulator)
    assert len(emulator.reports) == 1


# -- what waits wait for comes last ----------------------------------------------------------------

BOTH = """WAITS:
V:
mbarrier.try_wait.parity.shared.b64 %p3, [bar+8], 0;
@!%p3 bra V;
W:
mbarrier.try_wait.parity.shared.b64 %p3, [bar], 0;
@!%p3 bra W;
"""
"""Who waits, for the second barrier and then for the first."""
COPIES = f"""@!%p1 mbarrier.init.shared.b64 [bar], 1;
@!%p1 mbarrier.init.shared.b64 [bar+8], 1;
bar.sync 0;
@!%p2 bra WAITS;
elect.sync %r7|%p4, -1;
@!%p4 bra END;
mbarrier.arrive.expect_tx.shared.b64 _, [bar], 128;
cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [data], [%rd1], 128, [bar];
mbarrier.arrive.expect_tx.shared.b64 _, [bar+8], 128;
cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [data+128], [%rd1], 128, [bar+8];
bra END;
{BOTH}ld.shared.b32 %r7, [%r3];
END:
U:
mbarrier.try_wait.parity.shared.b64 %p3, [bar], 0;
@!%p3 bra U;
"""
"""Warp 0 waits for the second one of two copies first; nobody exits before both are there."""


def unrepeated(text: str, nth: int, threads: int = 64) -> tuple[Any, Any]:
    """The campaign of a kernel, and its mutant of the nth try_wait."""
    one = campaign(text, threads=threads, switches=Switches(uninitialized=Uninitialized.WARNING))
    at = line(text, "try_wait", nth)
    mutants = (m for m in one.mutants if m.operator == UNREPEATED)
    return one, next(m for m in mutants if m.instruction.line == at)


def test_a_wait_for_the_first_copy_behind_that_for_the_second() -> None:
    one, mutant = unrepeated(COPIES, 1)
    found = one.end(mutant)
    assert (found.end, found.seed) == ("race", benchmark("emulated_mutants.run").STARVED)
    assert one.end(one.mutants[0]).end == "undetected", "the kernel itself is silent"


ARRIVALS = f"""@!%p1 mbarrier.init.shared.b64 [bar], 32;
@!%p1 mbarrier.init.shared.b64 [bar+8], 32;
bar.sync 0;
@!%p2 bra WAITS;
setp.eq.s32 %p4, %r9, 1;
@%p4 st.shared.b32 [%r3], %r1;
@%p4 mbarrier.arrive.shared.b64 _, [bar];
@!%p4 mbarrier.arrive.shared.b64 _, [bar+8];
bra END;
{BOTH}ld.shared.b32 %r7, [%r6];
END:
"""
"""Warp 1 arrives for what warp 0 reads, warp 2 for what it waits for before."""


def test_a_wait_for_arrivals_of_another_warp() -> None:
    one, mutant = unrepeated(ARRIVALS, 1, threads=96)
    lines = one._completing(0)
    first, second = (line(ARRIVALS, "mbarrier.arrive", n) for n in (0, 1))
    assert lines[mutant.instruction.line] == {first}
    assert lines[line(ARRIVALS, "try_wait")] == {second}
    for kernel, found in ((mutant.original, None), (mutant.kernel, "race")):
        changed = replace(mutant, kernel=kernel)
        policy = starved(kernel, [kernel.body.index(mutant.instruction)], lines)
        assert isinstance(policy, Starved)
        assert [kernel.body[at].line for at in sorted(policy.stops)] == [
            first, mutant.instruction.line
        ]  # fmt: skip
        emulator = Emulator(policy, "first", one.capture.switches, rewrite=changed.module)
        if found is None:
            one.execute(0, emulator)
        else:
            with pytest.raises(EmulationError, match=found):
                one.execute(0, emulator)


LIMIT = 10_000
"""Instructions, many more than there are without spinning."""


def test_whoever_repeats_a_wait_comes_to_its_end() -> None:
    """Warp 0 tests again and again in a loop that is more than the branch back."""
    text = COPIES.replace("@!%p3 bra W;", "add.s32 %r8, %r8, 1;\n@!%p3 bra W;")
    one, mutant = unrepeated(text, 1)
    lines = one._completing(0)
    itself = replace(mutant, kernel=mutant.original)
    policy = starved(itself.kernel, [itself.kernel.body.index(mutant.instruction)], lines)
    emulator = Emulator(policy, "first", one.capture.switches, LIMIT, itself.module)
    one.execute(0, emulator)
    assert len(emulator.reports) == 1


# -- readings --------------------------------------------------------------------------------------

EXCHANGED = """tcgen05.wait::ld.sync.aligned;
fence.proxy.async.shared::cta;
st.shared.b32 [%r3], %r1;
bar.sync 0;
ld.shared.b32 %r7, [%r6];
"""


def reason(text: str, operator: str) -> str:
    strict, one = benchmark("emulated_mutants.strict"), campaign(text)
    mutant = next(m for m in one.mutants if m.operator == operator)
    return strict.Strict(one).reason(mutant)


def test_instructions_that_order_nothing() -> None:
    found = reason(EXCHANGED, "M2/M4 proxy fence removed")
    assert "all that conflicts is ordered" in found
    assert "S10" in found, "the kernel is silent under stricter readings, which are tried"


def test_barriers_do_more_than_order() -> None:
    assert reason(EXCHANGED, "M7 barrier removed") == ""
