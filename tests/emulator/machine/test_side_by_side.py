"""Loads and stores of several warps that are executed at once do what each of them does alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from schedgen.emulator.instructions.access import Access, Several
from schedgen.emulator.machine.lanes import EmulationError, Read
from schedgen.emulator.machine.policies import Policy, RoundRobin, Seeded
from schedgen.emulator.machine.warp import Warp
from schedgen.emulator.order.checker import Checker
from tests.emulator.machine.running import run, store

WARPS = 4
OWN = "mov.b32 %r1, sm; shl.b32 %r2, %r39, 3; add.s32 %r3, %r1, %r2;"
"""%r3: the address of 8 bytes of a thread."""
OTHERS = "xor.b32 %r4, %r2, 256; add.s32 %r4, %r1, %r4;"
"""%r4: the address of those of a thread of the next warp."""
SAME = "and.b32 %r4, %r2, 255; add.s32 %r4, %r1, %r4;"
"""%r4: an address that threads of all warps have."""
PUT = "add.s32 %r5, %r39, 7; st.shared.v2.b32 [%r3], {%r39, %r5};"
MATRIX = "shl.b32 %r6, %r39, 4; and.b32 %r6, %r6, 1008; add.s32 %r6, %r1, %r6;"
WORDS = "{%r7, %r8, %r9, %r10}"
CASES = {
    "own": f"{PUT} ld.shared.v2.b32 {{%r7, %r8}}, [%r3];",
    "others": f"{PUT} bar.sync 0; {OTHERS} ld.shared.v2.b32 {{%r7, %r8}}, [%r4];",
    "read too early": f"{PUT} {OTHERS} ld.shared.v2.b32 {{%r7, %r8}}, [%r4];",
    "written by all": f"{SAME} st.shared.v2.b32 [%r4], {{%r39, %r3}};",
    "written again": f"{PUT} {PUT} bar.sync 0; {OTHERS} st.shared.v2.b32 [%r4], {{%r39, %r3}};",
    "overwritten too early": f"{PUT} {OTHERS} st.shared.v2.b32 [%r4], {{%r39, %r3}};",
    "what is there": f"{PUT} {PUT}",
    "read and overwritten": f"""{PUT} bar.sync 0; {OTHERS} ld.shared.v2.b32 {{%r7, %r8}}, [%r4];
        bar.sync 0; {PUT} bar.sync 0; {PUT}""",
    "unwritten": "ld.shared.v2.b32 {%r7, %r8}, [%r3];",
    "behind an atomic": f"{PUT} atom.shared.add.u32 %r9, [%r1], 1; {PUT}",
    "matrices": f"""{PUT} bar.sync 0; {MATRIX}
        ldmatrix.sync.aligned.m8n8.x4.shared.b16 {WORDS}, [%r6];
        bar.sync 0; mov.b32 %r11, %r39;
        stmatrix.sync.aligned.m8n8.x2.shared.b16 [%r6], {{%r11, %r7}};
        ldmatrix.sync.aligned.m8n8.x2.shared.b16 {{%r7, %r8}}, [%r6];""",
    "in a loop": f"""mov.u32 %r12, 0;
        AGAIN: {PUT} bar.sync 0; {OTHERS} ld.shared.v2.b32 {{%r7, %r8}}, [%r4];
        add.u32 %r12, %r12, 1; setp.lt.u32 %p1, %r12, 7; @%p1 bra AGAIN;""",
    "some lanes": f"setp.lt.u32 %p1, %r39, 70; @!%p1 bra END; {PUT} END:",
}  # fmt: skip


def apart(*_: object, **__: object) -> None:
    """Access.several where warps have to execute one after the other."""


def findings(text: str, policy: Policy) -> tuple[list[int], str]:
    """What threads read at last, and what is found."""
    checker = Checker(WARPS)
    begin = f"mov.u32 %r7, 0; mov.u32 %r8, 0; {OWN}"
    end = f"add.s32 %r7, %r7, %r8; {store('%r7')}"
    out = run(f"{begin}\n{text}\n{end}", threads=32 * WARPS, policy=policy, tracker=checker).out
    checker.close()
    return out.tolist(), checker.report()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("policy", [RoundRobin, lambda: RoundRobin(8), lambda: Seeded(1)])
def test_together_as_apart(
    case: str, policy: Callable[[], Policy], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = findings(CASES[case], policy())
    monkeypatch.setattr(Access, "several", apart)
    assert found == findings(CASES[case], policy())


def test_they_are_executed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    met: list[bool] = []
    several = Access.several

    def noted(self: Access, warps: Sequence[Warp], read: Read, *, write: bool) -> Several | None:
        found = several(self, warps, read, write=write)
        met.append(found is not None)
        return found

    monkeypatch.setattr(Access, "several", noted)
    findings(CASES["others"], RoundRobin())
    findings(CASES["own"], RoundRobin())
    assert met.count(True) >= 4


RACES = ("read too early", "written by all", "overwritten too early", "unwritten")


@pytest.mark.parametrize("case", RACES)
def test_races(case: str) -> None:
    assert "no race" not in findings(CASES[case], RoundRobin())[1]


@pytest.mark.parametrize("case", ["own", "others", "written again", "read and overwritten"])
def test_no_false_alarms(case: str) -> None:
    assert findings(CASES[case], RoundRobin())[1] == "no race found"


def test_the_warp_whose_fault_it_is() -> None:
    text = f"setp.gt.u32 %p2, %r39, 95; selp.b32 %r5, -4, 0, %p2; add.s32 %r3, %r3, %r5; {PUT}"
    with pytest.raises(EmulationError, match=r"(?s)multiple of 8 bytes.*warp 3"):
        findings(text, RoundRobin())
