"""Launches from beginning to end, without the DSL: what is executed, reported, raised, mutated."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from time import perf_counter

import numpy as np
import pytest
from numpy.typing import NDArray

from schedgen.benchmarks.mutants.kernels import Mutant, mutants
from schedgen.emulator.emulation import Emulator, RaceError, Races, Report
from schedgen.emulator.launch.capture import Allocation, Launch, Parameters
from schedgen.emulator.launch.targets import target
from schedgen.emulator.machine.lanes import EmulationError
from schedgen.emulator.machine.launch import LIMIT
from schedgen.emulator.machine.policies import Adversarial, Policy, RoundRobin, Seeded
from schedgen.emulator.machine.program import Decoded
from schedgen.emulator.machine.switches import Switches, Uninitialized
from schedgen.emulator.order.findings import Severity
from schedgen.emulator.ptx.errors import PtxError
from schedgen.emulator.ptx.parse import parse

PTX = """.version 8.8
.target sm_90a
.address_size 64
.file 1 "kernel.py"
.visible .entry k(.param .u64 out)
{
.reg .pred %p<4>; .reg .b32 %r<20>; .reg .b64 %rd<9>;
.shared .align 16 .b8 data[256];
.shared .align 8 .b8 bar[16];
ld.param.b64 %rd1, [out];
mov.u32 %r1, %tid.x;
shl.b32 %r2, %r1, 2;
mov.b32 %r5, data;
add.s32 %r3, %r5, %r2;
setp.ne.s32 %p1, %r1, 0;
@%p1 bra READY;
mbarrier.init.shared.b64 [bar], 64;
READY:
.loc 1 7 0
bar.sync 0;
st.shared.b32 [%r3], %r1;
mbarrier.arrive.shared.b64 _, [bar];
WAIT:
mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;
@!%p2 bra WAIT;
xor.b32 %r6, %r2, 128;
add.s32 %r6, %r5, %r6;
ld.shared.b32 %r7, [%r6];
cvt.u64.u32 %rd2, %r2;
add.s64 %rd3, %rd1, %rd2;
st.global.b32 [%rd3], %r7;
ret;
}
"""
"""Two warps exchange their thread numbers through shared memory, behind an mbarrier."""
RIGHT = [*range(32, 64), *range(32)]


class Run:
    """One launch of `PTX` or of a changed text."""

    def __init__(self, ptx: str = PTX, *, races: Races = "raise", name: str = "sm_90a") -> None:
        self.out: NDArray[np.uint32] = np.zeros(64, np.uint32)
        self.emulator = Emulator(races=races, limit=10_000)
        self._address = ctypes.c_uint64(self.out.ctypes.data)
        self._pointers = (ctypes.c_void_p * 1)(ctypes.addressof(self._address))
        self.launch = Launch(
            "k", (1, 1, 1), (64, 1, 1), (1, 1, 1), 0, ptx, target(name, 1),
            (Allocation(self.out.ctypes.data, self.out.nbytes, "out"),), {},
            Parameters(ctypes.addressof(self._pointers)),
        )  # fmt: skip

    def __call__(self) -> Run:
        self.emulator.run(self.launch)
        return self


def without(fragment: str) -> str:
    assert fragment in PTX
    return PTX.replace(fragment, "")


ARRIVE = "mbarrier.arrive.shared.b64 _, [bar];"
WAIT = "mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;\n@!%p2 bra WAIT;"


def test_result_and_report() -> None:
    run = Run()()
    assert run.out.tolist() == RIGHT
    (report,) = run.emulator.reports
    assert report.clean
    assert (report.kernel, report.grid, report.block) == ("k", (1, 1, 1), (64, 1, 1))
    assert report.statistics.instructions > 30
    assert (run.emulator.coverage.instructions, run.emulator.coverage.unexecuted()) == (4, ())


def test_race_is_raised_after_the_run() -> None:
    run = Run(without(WAIT))
    with pytest.raises(RaceError, match=r"read after .*write.*\n.*st\.shared"):
        run()
    assert len(run.emulator.reports) == 1


def test_race_is_reported() -> None:
    (report,) = Run(without(WAIT), races="report")().emulator.reports
    assert not report.clean
    assert "ld.shared.b32 %r7, [%r6];  [kernel.py:7]" in report.text


def test_races_off() -> None:
    (report,) = Run(without(WAIT), races="off")().emulator.reports
    assert report.findings is None
    assert not report.clean


def test_the_first_finding_ends_the_launch() -> None:
    run = Run(without(WAIT), races="first")
    with pytest.raises(EmulationError, match=r"at the first finding(.|\n)*error: uninitialized"):
        run()
    assert not run.emulator.reports


def rows(store: str, reading: Uninitialized = Uninitialized.USED) -> Run:
    """Only the first 40 threads write their row; all read theirs, and ``store`` it or not."""
    ptx = PTX.replace("st.shared.b32 [%r3], %r1;", "setp.lt.u32 %p3, %r1, 40;\n"
                      "@%p3 st.shared.b32 [%r3], %r1;")  # fmt: skip
    ptx = ptx.replace("xor.b32 %r6, %r2, 128;", "mov.b32 %r6, %r2;")
    run = Run(ptx.replace("st.global", f"{store} st.global"), races="report")
    run.out[:] = 1000
    run.emulator.switches = Switches(uninitialized=reading)
    return run()


def test_rows_that_are_read_and_not_stored_are_no_error() -> None:
    run = rows("@%p3")
    (report,) = run.emulator.reports
    assert run.out.tolist() == [*range(40), *[1000] * 24]
    assert report.clean
    assert report.text.startswith("warning: uninitialized: ")
    assert "the same with other values there" in report.text


def test_what_is_stored_may_not_depend_on_what_nobody_wrote() -> None:
    run = rows("")
    (report,) = run.emulator.reports
    assert run.out[40:].tolist() == [0xFFFFFFFF] * 24
    assert [(f.rule, f.severity) for f in report.errors] == [("K9", Severity.ERROR)]
    assert "S28 uninitialized" in report.text


@pytest.mark.parametrize(("reading", "errors", "found"), [
    (Uninitialized.ERROR, 1, 1), (Uninitialized.WARNING, 0, 1), (Uninitialized.OFF, 0, 0),
])  # fmt: skip
def test_readings_of_uninitialized(reading: Uninitialized, errors: int, found: int) -> None:
    (report,) = rows("@%p3", reading).emulator.reports
    assert (len(report.errors), len(report.findings or ())) == (errors, found)


LEAK = """.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out)
{
.reg .b64 %rd<2>; .reg .pred %p<2>; .reg .b32 %r<4>;
.shared .align 16 .b8 data[16];
ld.param.b64 %rd1, [out]; mov.u32 %r1, %tid.x; setp.gt.u32 %p1, %r1, 31;
@%p1 bra END;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [data], 32;
END: st.global.b32 [%rd1], 7;
ret;
}
"""


def test_rules_that_are_broken_are_findings_of_a_report() -> None:
    """The launch comes to its end; elsewhere it is an error at once."""
    run = Run(LEAK, races="report", name="sm_100a")
    run.launch = replace(run.launch, block=(32, 1, 1))
    (report,) = run().emulator.reports
    assert run.out[0] == 7
    assert [(f.rule, f.severity) for f in report.findings or ()] == [("C14", Severity.ERROR)]
    run.emulator.races = "raise"
    with pytest.raises(EmulationError, match=r"32 columns at column 0 are not dealloc.*rule C14"):
        run()
    run.emulator.demoted = frozenset(["C14"])
    assert run().emulator.reports[-1].clean


def test_schedules_find_what_round_robin_does_not() -> None:
    """A try_wait that is not repeated: it may return False for no reason (B10)."""
    ptx = PTX.replace("@!%p2 bra WAIT;", "")
    assert Run(ptx, races="report")().emulator.reports[0].clean
    run = Run(ptx, races="report")
    run.emulator.schedules = 3
    (report,) = run().emulator.reports
    assert not report.clean
    assert "ld.shared.b32" in report.text


def test_schedules_begin_with_the_same_memory() -> None:
    """A kernel that adds to what is there does so once, whatever else was tried."""
    ptx = PTX.replace("st.global.b32 [%rd3], %r7;", "red.global.add.u32 [%rd3], %r7;")
    run = Run(ptx)
    run.emulator.schedules = 3
    assert run().out.tolist() == RIGHT
    assert len(run.emulator.reports) == 1


def test_an_error_names_the_schedule() -> None:
    run = Run(without(ARRIVE))
    run.emulator.schedules = 2
    with pytest.raises(EmulationError, match=r"deadlock(.|\n)*under Adversarial\(seed=0\)"):
        run()


@pytest.mark.parametrize("schedules", [1, 3, 4])
def test_processes_find_the_same(schedules: int) -> None:
    """In the same order, under the same schedules, and from the same memory."""
    ptx = PTX.replace("@!%p2 bra WAIT;", "").replace("st.global.b32", "red.global.add.u32")
    reports: list[Report] = []
    for jobs in (1, 2, 3, 9):
        run = Run(ptx, races="report")
        run.emulator.schedules, run.emulator.jobs = schedules, jobs
        reports += run().emulator.reports
    assert len({report.text for report in reports}) == 1
    assert len({report.findings for report in reports}) == 1
    assert not reports[0].clean


@pytest.mark.parametrize("jobs", [2, 3])
def test_the_error_of_the_first_schedule_is_raised(jobs: int) -> None:
    run = Run(without(ARRIVE))
    run.emulator.schedules, run.emulator.jobs = 2, jobs
    with pytest.raises(EmulationError, match=r"deadlock(.|\n)*under Adversarial\(seed=0\)"):
        run()
    assert not run.emulator.reports


def test_clean_kernels_come_to_their_end() -> None:
    (report,) = Run(races="first")().emulator.reports
    assert report.clean


def test_deadlock() -> None:
    with pytest.raises(EmulationError, match="deadlock"):
        Run(without(ARRIVE))()


@pytest.mark.parametrize(
    ("ptx", "name", "message"),
    [
        (PTX, "sm_100a", "the PTX is for sm_90a, the device is sm_100a"),
        (PTX.replace(" k(", " other("), "sm_90a", "no kernel 'k'; it has other"),
    ],
)
def test_wrong_module(ptx: str, name: str, message: str) -> None:
    with pytest.raises(EmulationError, match=message):
        Run(ptx, name=name)()


def test_mutants() -> None:
    """Each is another kernel, and none of them is right and clean."""
    module = parse(PTX)
    found = list(mutants(module.kernels["k"]))
    assert [mutant.operator for mutant in found] == [
        "M11 init count + 1",
        "M11 init count - 1",
        "M7 barrier removed",
        "arrive removed",
        "M12 arrive on the next barrier",
        "M15 wait removed",
        "M12 wait for the next barrier",
        "M15 wait without its loop",
        "M10 parity flipped",
    ]
    # A test of a phase that is not repeated: round-robin lets it succeed, seeds do not.
    assert [_end(mutant, schedules=3) for mutant in found] == [
        "deadlock", "error", "error", "deadlock", "error", "race", "error", "race", "deadlock"
    ]  # fmt: skip


def test_mutants_share_decoded_instructions() -> None:
    """One after the other, on the same memory, with and without."""
    run, decoded = Run(), Decoded()
    kernel = parse(PTX).kernels["k"]
    found = [Mutant("none", kernel.body[0], kernel, kernel), *mutants(kernel)]
    run.emulator.module = parse(PTX)
    assert [_end(m, run) for m in found] == [_end(m) for m in found]
    run.emulator.decoded = decoded
    ends = [_end(m, run) for m in found]
    assert ends == [_end(m) for m in found]
    assert ends[0] == "undetected"
    before = len(decoded.steps)
    assert _end(found[0], run) == "undetected"
    assert len(decoded.steps) == before


def _end(mutant: Mutant, run: Run | None = None, schedules: int = 0) -> str:
    run = run or Run()
    run.emulator.rewrite, run.emulator.schedules = mutant.module, schedules
    try:
        run()
    except RaceError:
        return "race"
    except EmulationError as error:
        return "deadlock" if "deadlock" in str(error) else "error"
    return "undetected"


# -- bad input: a clear message, in a bounded time -------------------------------------------------


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.8, 0.97])
def test_truncated_ptx(share: float) -> None:
    with pytest.raises(PtxError, match=r"<ptx>:\d+:\d+: error\["):
        Run(PTX[: int(share * len(PTX))])()


def test_unknown_instruction() -> None:
    with pytest.raises(EmulationError, match=r"line \d+: frobnicate\.b32: .*not supported"):
        Run(PTX.replace("xor.b32", "frobnicate.b32"))()


def test_tensor_that_is_too_small() -> None:
    run = Run()
    short = Allocation(run.out.ctypes.data, 128, "out")
    run.launch = replace(run.launch, allocations=(short,))
    with pytest.raises(EmulationError, match=r"line \d+: st\.global\.b32: .*out"):
        run()


def test_tensor_that_nobody_passed() -> None:
    run = Run()
    run.launch = replace(run.launch, allocations=())
    with pytest.raises(EmulationError, match=r"st\.global\.b32: .*0x[0-9a-f]+"):
        run()


@pytest.mark.parametrize("policy", [RoundRobin(), Adversarial(0), Seeded(0)])
def test_endless_loop(policy: Policy) -> None:
    run = Run(PTX.replace("@!%p2 bra WAIT;", "bra WAIT;"))
    run.emulator.policy = policy
    with pytest.raises(EmulationError, match=r"more than 10000 warp instructions(.|\n)*PTX lines"):
        run()


@pytest.mark.medium
@pytest.mark.parametrize("policy", [RoundRobin(), Adversarial(0), Seeded(0)])
def test_endless_loop_without_progress(policy: Policy) -> None:
    """What nobody chose a limit for ends after some seconds in which nothing happens."""
    run = Run(PTX.replace("@!%p2 bra WAIT;", "bra WAIT;"))
    run.emulator.policy, run.emulator.limit, run.emulator.stall = policy, LIMIT, 0.5
    begin = perf_counter()
    with pytest.raises(
        EmulationError, match=r"for 0\.5 s without an arrival(.|\n)*`stall`(.|\n)*PTX"
    ):
        run()
    assert perf_counter() - begin < 20
    assert Emulator().stall < 60


def test_endless_loop_with_barriers() -> None:
    """Progress without end: only the clock or the number of instructions can tell."""
    run = Run(PTX.replace(WAIT, "AGAIN: bar.sync 0;\nbra AGAIN;"), races="off")
    run.emulator.limit, run.emulator.stall, run.emulator.seconds = LIMIT, 5, 1
    begin = perf_counter()
    with pytest.raises(EmulationError, match=r"not come to its end in 1 s(.|\n)*`seconds`"):
        run()
    assert perf_counter() - begin < 20


def test_registers_at_launch() -> None:
    """PTX does not say them: what fits is taken, until somebody says what ptxas assigned."""
    ptx = """.version 8.8
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out)
{
setmaxnreg.inc.sync.aligned.u32 232;
ret;
}
"""
    run = Run(ptx)
    run.launch = replace(run.launch, block=(128, 1, 1))
    assert run().emulator.reports[-1].clean
    run.emulator.registers = 168
    with pytest.raises(EmulationError, match=r"deadlock(.|\n)*64 more registers"):
        run()
