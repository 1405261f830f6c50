"""What a person reads, and how much of it."""

from __future__ import annotations

from schedgen.emulator.machine.switches import Switches, Verdict
from schedgen.emulator.order.checker import Checker
from schedgen.emulator.order.findings import Race, Severity
from schedgen.emulator.order.grid import cluster_of, warps_per_cta
from schedgen.emulator.order.tracker import Queue, Tracker
from tests.emulator.order.kernel import Kernel, memory, shared, tensor

WORD = (512, 4)


def test_text_of_a_race() -> None:
    checker = Checker(8, describe=lambda line: f"line{line} [kernel.py:{line}]")
    for _ in range(3):
        checker.generic(4, shared(WORD), write=True, line=12)
        copy = checker.issue(1, Queue.BULK_STORE, 40)
        checker.access(copy, shared(WORD), write=False)
        checker.finish(copy)
        checker.bulk_commit(1)
        checker.bulk_wait(1, 0, read=False)
        checker.join((1,), (4,), cluster=False)
    assert checker.report() == (
        "error: race, async read after generic write: 4 bytes in 0x200…0x203 of shared memory of "
        "CTA 0 (3 times)\n"
        "  first  warp 4 of CTA 0 writes, line 12, iteration 0: line12 [kernel.py:12]\n"
        "  then   warp 1 of CTA 0 reads (bulk store), line 40, iteration 0: line40 [kernel.py:40]\n"
        "  needs  fence.proxy.async in warp 4 after line 12, then an mbarrier or barrier hand-off "
        "from warp 4 (after line 12) to warp 1 (before line 40)\n"
        "  rule   X6"
    )


def test_text_of_a_defect() -> None:
    checker = Checker(8)
    checker.generic(4, shared(WORD), write=False, line=12)
    assert checker.report() == (
        "error: uninitialized: 4 bytes in 0x200…0x203 of shared memory of CTA 0\n"
        "  by     warp 4 of CTA 0 reads, line 12, iteration 0\n"
        "  needs  a write before\n"
        "  rule   K9; the verdict depends on the switch S28 uninitialized"
    )


def test_nothing_to_report() -> None:
    assert Checker(8).report() == "no race found"


def test_places_in_words() -> None:
    k = Kernel()
    k.checker.generic(0, memory((4096, 1)), write=True, line=1)
    k.checker.generic(8, memory((4096, 1)), write=True, line=2)
    k.st(0, (32, 2))
    k.st(4, (32, 2))
    report = k.checker.report()
    assert "byte 0x1000 of global memory" in report
    assert (
        "64 cells of tensor memory of CTA 0, from lane 0 column 32 to lane 31 column 33" in report
    )


def test_iterations() -> None:
    k = Kernel()
    for _ in range(3):
        k.checker.generic(3, shared(WORD), write=False, line=7)
    k.checker.generic(4, shared(WORD), write=True, line=9)
    race = k.race()
    assert (race.earlier.iteration, race.later.iteration) == (2, 0)


def test_the_same_lines_are_one_finding() -> None:
    k = Kernel()
    for i in range(100):
        k.checker.generic(3, shared((4 * i, 4)), write=True, line=7)
        k.checker.generic(4, shared((4 * i, 4)), write=True, line=9)
    assert (k.race().earlier.line, k.race().later.line) == (7, 9)
    assert "(100 times)" in k.checker.report()


def test_breaches_of_rules_are_findings_and_may_be_demoted() -> None:
    checker = Checker(8, demoted={"W2", "K1"}, describe=lambda line: f"text {line}")
    for _ in range(2):
        checker.broken(7, "W2", "register %r1 of D")
    checker.broken(8, "C14", "64 columns")
    checker.generic(3, shared(WORD), write=True, line=1)
    checker.generic(4, shared(WORD), write=True, line=2)
    assert [(f.rule, f.severity) for f in checker.findings] == [
        ("W2", Severity.WARNING), ("C14", Severity.ERROR), ("K1", Severity.WARNING),
    ]  # fmt: skip
    assert checker.report().startswith(
        "error: 64 columns\n  by     line 8: text 8\n  rule   C14\n\n"
        "warning: register %r1 of D (2 times)\n"
    )


def test_lines_of_one_source_line_are_one_group() -> None:
    """Two stores that come from one line of the source, each read by a line of its own."""
    checker = Checker(8, source=lambda line: line // 10)
    for line in (70, 71):
        checker.generic(3, shared((4 * line, 4)), write=True, line=line)
    for line, word in ((90, 70), (91, 71), (200, 71)):
        checker.generic(4, shared((4 * word, 4)), write=False, line=line)
    first, second = checker.groups
    assert [(f.earlier.line, f.later.line) for f in first.findings if isinstance(f, Race)] == [
        (70, 90), (71, 91),
    ]  # fmt: skip
    assert len(second.findings) == 1
    text = checker.report()
    assert text.count("error: race") == 2
    assert "  also   1 of the same source lines: PTX lines 71 and 91\n\nerror" in text


def test_groups_do_not_mix_what_needs_different_things() -> None:
    checker = Checker(8, source=lambda line: 0)
    checker.generic(3, shared(WORD), write=True, line=1)
    checker.generic(4, shared(WORD), write=False, line=2)
    checker.generic(4, shared((4096, 4)), write=False, line=3)
    assert [len(group.findings) for group in checker.groups] == [1, 1]


def test_limit() -> None:
    checker = Checker(8, limit=3, uninitialized=Verdict.OFF)
    for line in range(5):
        checker.generic(3, shared((4 * line, 4)), write=True, line=line)
        checker.generic(4, shared((4 * line, 4)), write=True, line=100 + line)
    assert len(checker.findings) == 3
    assert "… and others, met 2 times" in checker.report()


def test_errors_come_first_and_advice_is_no_error() -> None:
    checker = Checker(8, switches=Switches(consumption=Verdict.WARNING))
    checker.barrier_init(0, (0, 0), 1)
    checker.arrive(0, (0, 0), 0, line=2)
    checker.arrive(0, (0, 0), 1, line=3)
    assert [finding.severity for finding in checker.findings] == [Severity.WARNING]
    assert not checker.errors
    checker.generic(1, shared((64, 4)), write=True, line=4)
    checker.generic(2, shared((64, 4)), write=True, line=5)
    assert [type(finding) for finding in checker.errors] == [Race]
    assert checker.report().startswith("error: race")
    assert "the verdict depends on the switch S15 consumption" in checker.report()


def test_one_conflict_with_the_read_says_enough() -> None:
    """The write before the read is unordered, too, but follows from it."""
    k = Kernel()
    k.st(4, (0, 32))
    k.wait_st(4)
    k.sync(4, 5)
    k.checker.generic(0, shared(WORD), write=True, line=1)
    k.sync(0, 1)
    k.read(1, WORD)
    k.write(2, WORD)
    assert k.race().kind == "write after read"


def test_columns_grow() -> None:
    """More agents than a vector clock begins with."""
    k = Kernel()
    k.barrier(*range(0, 1600, 8))
    for offset in range(0, 1600, 8):
        k.load(1, (4096 + 8 * offset, 64), offset)
        k.wait(2, offset)
        k.read(2, (4096 + 8 * offset, 64))
        k.arrive(2, offset, 1)
    k.wait(3, 1592, 1)
    k.read(3, (4096, 64))
    assert k.clean()
    k.checker.access(k.checker.issue(4, Queue.MMA, k.at()), tensor((0, 32)), write=True)
    k.read(5, (4096, 64))
    assert not k.clean()


def test_launch_numbers() -> None:
    assert warps_per_cta((96, 2, 1)) == 6
    assert warps_per_cta((33, 1, 1)) == 2
    of = cluster_of((4, 4, 2), (2, 1, 2))
    # CTA (x, y, z) has the number x + 4·y + 16·z.
    assert of(0) == of(1) == of(16) == of(17)
    assert len({of(cta) for cta in range(32)}) == 8
    assert of(2) != of(0) != of(4)


def test_it_is_a_tracker() -> None:
    tracker: Tracker = Checker(8)  # pyright compares all methods
    assert tracker.issue(0, Queue.MMA, 1) != tracker.issue(0, Queue.MMA, 1)
