"""What comes of lifting and proving a kernel, with places in its source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter

from schedgen.codegen.fenced import Unfenced, unfenced
from schedgen.conform.refusal import Refusal
from schedgen.emulator.ptx.tree import Instruction, Kernel, Module
from schedgen.findings import Claim, Finding
from schedgen.lift.items import THREADS, Item, Role
from schedgen.lift.lift import Lifted, Lifting, Race
from schedgen.lift.simulate import Hang, Miscount
from schedgen.proof.prove import METHODS, Proof, check

PROVEN, REFUTED, NOT_LIFTED = "proven", "refuted", "not lifted"


@dataclass(frozen=True, slots=True)
class Place:
    """An instruction: its line in the PTX and in the source, 0 and empty where nobody says."""

    what: str
    ptx: int = 0
    instruction: str = ""
    file: str = ""
    line: int = 0

    @staticmethod
    def of(one: Instruction | None, what: str) -> Place:
        if one is None:
            return Place(what)
        at = one.location
        where = (at.file, at.line) if at else ("", 0)
        return Place(what, one.line, one.name, *where)

    @property
    def text(self) -> str:
        """One line."""
        where = [f"{self.file}:{self.line}"] if self.file else []
        where += [f"PTX {self.ptx}: {self.instruction}"] if self.ptx else []
        return f"{self.what}  {'  '.join(where)}".rstrip()


@dataclass(frozen=True, slots=True)
class Wrong:
    """A finding: one sentence, the places that it is about, a trace."""

    claim: str
    text: str
    places: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True)
class Examined:
    """One kernel.

    Attributes:
        status: `PROVEN`, `REFUTED` or `NOT_LIFTED`.
        reason: why it is not lifted, with `places`.
        programs: what it was lifted to, one for each way that conditions on parameters turn out.
        methods: that the proof used.
    """

    kernel: str
    status: str
    reason: str
    places: tuple[Place, ...]
    findings: tuple[Wrong, ...]
    programs: tuple[Lifted, ...]
    methods: tuple[str, ...]
    seconds: float
    notes: tuple[Wrong, ...] = ()
    """Registers of products that are accessed behind their ``wgmma.fence``. PTX forbids it; the
    assembler adds the order where it sees the access, as of accumulators that are set to 0.
    """


def examine(
    module: Module, kernel: Kernel, methods: tuple[str, ...] = METHODS, *, quick: bool = True
) -> Examined:
    """Lifts a kernel of a module and proves what it is lifted to."""
    begin = perf_counter()
    programs: tuple[Lifted, ...] = ()
    places: tuple[Place, ...] = ()
    findings: list[Wrong] = []
    notes: list[Wrong] = []
    reason = ""
    try:
        programs = tuple(Lifting(kernel, module.target).programs())
        for one in programs:
            wrong, doubt = _told(one, methods, quick)
            findings += wrong
            reason, places = doubt or (reason, places)
        for register in unfenced(module):
            into = notes if register.missing == "wgmma.fence" else findings
            into.append(_registers(kernel, register))
    except Refusal as error:
        reason, places = error.message, (Place.of(error.instruction, "at"),)
    except RecursionError:
        reason = "its conditions are nested deeper than is followed"
    except Hang as error:
        findings.append(_hang(error))
    except Miscount as error:
        places = (Place.of(error.item.instruction, error.role.name),)
        findings.append(Wrong("counts_consistent", f"{_with(error.trips)}{error.text}", places))
        places = ()
    except Race as error:
        findings.append(_race(error))
    status = REFUTED if findings else NOT_LIFTED if reason else PROVEN
    seconds = perf_counter() - begin
    kept = tuple(dict.fromkeys(findings))
    told = tuple(dict.fromkeys(notes))
    return Examined(kernel.name, status, reason, places, kept, programs, methods, seconds, told)


Told = tuple[list[Wrong], tuple[str, tuple[Place, ...]] | None]
"""Findings, and why a proof says nothing, with places."""


def _told(lifted: Lifted, methods: tuple[str, ...], quick: bool) -> Told:
    """What proofs say about the kernel, or why they say nothing.

    Where a block has one tile, the program begins another one and completes what the kernel leaves
    open: accesses that nothing orders in a tile are the kernel's, anything else may be another's.
    Without turns there is less order than in the kernel: a race may be another's, too.
    """
    if lifted.without_turns is not None:
        proof = check(lifted.without_turns, methods, quick=quick)
        if not proof.proven:
            text = "without the turns that its roles hand to each other, it is not proven"
            wrong = [] if lifted.race is None else [_race(lifted.race)]
            return wrong, None if wrong else _doubt(lifted, proof, text)
    proof = check(lifted.program, methods, quick=quick)
    if proof.proven or not lifted.once:
        return [_wrong(lifted, finding) for finding in proof.findings], None
    wrong = [
        _wrong(lifted, finding)
        for verdict in proof.verdicts
        if verdict.method == "graph" and not lifted.turns
        for finding in verdict.findings
        if finding.claim is Claim.RACE and not finding.later_tile
    ]
    if wrong:
        return wrong, None
    what = "has all turns, and goes on" if lifted.turns else "goes on"
    text = f"its program, which {what} behind the only tile, is not proven"
    return [], _doubt(lifted, proof, text)


def _doubt(lifted: Lifted, proof: Proof, text: str) -> tuple[str, tuple[Place, ...]]:
    first = proof.findings[0]
    return f"{text}: {first.text}", tuple(_places(lifted, first))


def _with(trips: Sequence[int]) -> str:
    each = f"{trips[0]} iterations" if len(set(trips)) == 1 else f"{list(trips)} iterations"
    return f"with tiles of {each}: " if len(trips) > 1 else f"with {each}: "


def _hang(error: Hang) -> Wrong:
    waiting = [f"{role.name} waits for {_word(item)}" for role, item in error.waiting]
    places = tuple(Place.of(item.instruction, role.name) for role, item in error.waiting)
    return Wrong("deadlock_free", f"{_with(error.trips)}{', '.join(waiting)} for ever", places)


def _word(item: Item) -> str:
    if item.word is None:
        return item.kind
    kind, at = item.word
    if kind == "bar":
        return f"numbered barrier {at // THREADS} of {at % THREADS} threads"
    parity = "" if item.parity is None else f" with parity {item.parity}"
    return f"{kind} {at}{parity}"


def _race(error: Race) -> Wrong:
    def told(of: tuple[Role, Item]) -> str:
        role, item = of
        verb = "writes" if any(touch.write for touch in item.touches) else "reads"
        return f"{role.name} {verb}"

    first, second = error.found.first, error.found.second
    places = tuple(Place.of(item.instruction, told((role, item))) for role, item in (first, second))
    text = f"{_with(error.trips)}{told(first)} and {told(second)} the same bytes; nothing orders it"
    return Wrong("race_free", text, places)


def _wrong(lifted: Lifted, finding: Finding) -> Wrong:
    return Wrong(finding.claim.value, finding.text, tuple(_places(lifted, finding)))


def _places(lifted: Lifted, finding: Finding) -> Iterator[Place]:
    """Of the steps that a finding names."""
    said = " ".join((finding.text, *finding.subject))
    for (role, section, at), item in lifted.made.items.items():
        step = f"{role} {section}[{at}]"
        if step in said:
            yield Place.of(item.instruction, step)


def _registers(kernel: Kernel, one: Unfenced) -> Wrong:
    lines = {instruction.line: instruction for instruction in kernel.body}
    places = (
        Place.of(lines.get(one.line), f"accesses {one.register}"),
        Place.of(lines.get(one.product), "the product"),
    )
    return Wrong("race_free", f"{one} with no {one.missing} between", places)


# -- reports -----------------------------------------------------------------------------------


def lines_of(found: Examined) -> Iterator[str]:
    """A report as text."""
    yield f"{found.kernel[:100]}: {found.status}"
    if found.status == NOT_LIFTED:
        yield f"  why          {found.reason}"
        yield from (f"               {place.text}" for place in found.places if place.ptx)
    for finding in found.findings[:10]:
        yield f"  {finding.claim:<12} {finding.text}"
        yield from (f"               {place.text}" for place in finding.places)
    if len(found.findings) > 10:
        yield f"  and {len(found.findings) - 10} more"
    for note in found.notes[:1]:
        yield f"  note         {note.text} ({len(found.notes)} such products)"
    for number, one in enumerate(found.programs):
        yield from _program_lines(one, number)
    if found.status == PROVEN:
        yield f"  proven       {', '.join(found.methods)}; for all trip counts from 1 on"
    yield f"  seconds      {found.seconds:.1f}"


def _program_lines(one: Lifted, number: int) -> Iterator[str]:
    if one.assumed:
        yield f"  case {number + 1}       {'; '.join(one.assumed)}"
    if number:
        return
    yield f"  trip count   {one.trip or 'none'}"
    for place in one.breaks:
        yield f"  divided at   {place}"
    program = one.program
    for role in program.roles:
        sizes = f"{len(role.before)} + {len(role.loop)} + {len(role.after)} steps"
        yield f"  role         {role.name}: {role.warps} warps, {sizes}"
    for barrier in program.barriers:
        takes = f"{barrier.arrivals} arrivals, {barrier.bytes} bytes"
        yield f"  barrier      {barrier.name}: {barrier.slots} slots, {takes}"
    for turn in one.turns:
        first = f", {turn.first} for the first one" if turn.first else ""
        yield f"  turn         of {turn.owner} at {turn.barrier}: given by {turn.giver}{first}"
    for store in program.allocations:
        each = store.size // store.slots
        yield f"  memory       {store.name}: {store.slots} slots of {each} bytes"
    limits = one.limits
    yield (
        f"  compared     trip counts up to {limits.trips} (K = {limits.constant}, "
        f"M = {limits.modulus}), {one.compared} tiles"
    )


def data_of(found: Examined) -> dict[str, object]:
    """The same as data."""

    def place(one: Place) -> dict[str, object]:
        return {
            "what": one.what, "file": one.file, "line": one.line, "ptx": one.ptx,
            "instruction": one.instruction,
        }  # fmt: skip

    return {
        "kernel": found.kernel,
        "status": found.status,
        "reason": found.reason,
        "places": [place(one) for one in found.places],
        "findings": [
            {"claim": f.claim, "text": f.text, "places": [place(p) for p in f.places]}
            for f in found.findings
        ],
        "notes": [{"text": n.text, "places": [place(p) for p in n.places]} for n in found.notes],
        "programs": [_program_data(one) for one in found.programs],
        "methods": list(found.methods),
        "seconds": round(found.seconds, 1),
    }


def _program_data(one: Lifted) -> dict[str, object]:
    program = one.program
    return {
        "assumed": list(one.assumed),
        "trip_count": one.trip,
        "divided_at": list(one.breaks),
        "trip_counts_compared": one.limits.trips,
        "modulus": one.limits.modulus,
        "roles": [{"name": r.name, "warps": r.warps, "steps": len(r.steps)} for r in program.roles],
        "barriers": [
            {"name": b.name, "slots": b.slots, "arrivals": b.arrivals, "bytes": b.bytes}
            for b in program.barriers
        ],
        "memory": [
            {"name": a.name, "slots": a.slots, "bytes": a.size} for a in program.allocations
        ],
        "turns": [{"barrier": t.barrier, "of": t.owner, "from": t.giver} for t in one.turns],
    }


def worst(found: Iterable[Examined]) -> str:
    """Refuted before not lifted before proven."""
    known = {one.status for one in found}
    return next((s for s in (REFUTED, NOT_LIFTED, PROVEN) if s in known), NOT_LIFTED)
