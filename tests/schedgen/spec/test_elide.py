"""Copies within one memory space disappear, and nobody reads another value than before.

The check is independent of how merging is decided: both kernels are executed on symbols.
"""

import random
from collections.abc import Mapping
from itertools import pairwise, product
from typing import Any, cast

import pytest

from schedgen.errors import SpecError
from schedgen.kernel import Kernel, Kind, Operation, Phase, Piece
from schedgen.spec import bind as binding
from schedgen.spec.elide import elide_copies
from schedgen.spec.reader import Spec, parse_spec, read_spec, spec_from_data

TRIPS = 3
Cell = tuple[int, int, int, int]


class Machine:
    """Executes a kernel; a value is a hash of the operation that made it and of all it read."""

    def __init__(
        self, kernel: Kernel, cuts: Mapping[tuple[int, ...], tuple[list[int], ...]]
    ) -> None:
        self.kernel = kernel
        self.cuts = cuts
        self.now: dict[tuple[str, Cell], int] = {}
        self.past: list[dict[tuple[str, Cell], int]] = []
        self.trace: dict[tuple[str, int], int] = {}

    def cells(self, piece: Piece) -> list[Cell]:
        rows, widths = self.cuts[self.kernel.region[piece.region].shape]
        return [
            (*row, *width)
            for row, width in product(pairwise(rows), pairwise(widths))
            if piece.row0 <= row[0] < piece.row1 and piece.byte0 <= width[0] < piece.byte1
        ]

    def value(self, region: str, cell: Cell, distance: int) -> int:
        start = hash(("start", self.kernel.region[region].initial))
        if distance == 0:
            return self.now.get((region, cell), start)
        if distance > len(self.past) - 1:
            return self.past[0].get((region, cell), start)
        return self.past[-distance].get((region, cell), start)

    def execute(self, operation: Operation, iteration: int) -> None:
        pieces = self.kernel.piece
        read = [
            self.value(pieces[r.piece].region, cell, r.distance)
            for r in operation.reads
            for cell in self.cells(pieces[r.piece])
        ]
        seen = hash((operation.base, operation.index, iteration, tuple(sorted(set(read)))))
        self.trace[operation.name, iteration] = seen
        written: dict[tuple[str, Cell], int] = {}
        for piece in (pieces[name] for name in operation.writes):
            for cell in self.cells(piece):
                written[piece.region, cell] = hash((seen, cell))
                if self.moves(operation):
                    source = pieces[operation.reads[0].piece].region
                    distance = operation.reads[0].distance
                    written[piece.region, cell] = self.value(source, cell, distance)
        self.now |= written

    def moves(self, operation: Operation) -> bool:
        if operation.kind is not Kind.COPY or operation.transposed:
            return False
        region = self.kernel.region_of
        source, to = region(operation.reads[0].piece), region(operation.writes[0])
        return (source.shape, source.dtype) == (to.shape, to.dtype)

    def run(self, *, boundary: bool, when: bool) -> dict[tuple[str, int], int]:
        for phase in Phase:
            for iteration in range(TRIPS if phase is Phase.BODY else 1):
                if phase is Phase.BODY:
                    self.past.append(dict(self.now))
                for operation in self.kernel.operations:
                    skipped = (operation.boundary and not boundary) or (
                        operation.when is not None and not when
                    )
                    if operation.phase is phase and not skipped:
                        self.execute(operation, iteration)
        return self.trace


def cuts_of(kernel: Kernel) -> dict[tuple[int, ...], tuple[list[int], ...]]:
    """All places where regions of one shape are cut, in rows and in bytes."""
    places: dict[tuple[int, ...], tuple[set[int], set[int]]] = {}
    for piece in kernel.pieces:
        rows, widths = places.setdefault(kernel.region[piece.region].shape, (set(), set()))
        rows |= {piece.row0, piece.row1}
        widths |= {piece.byte0, piece.byte1}
    return {shape: (sorted(rows), sorted(widths)) for shape, (rows, widths) in places.items()}


def unchanged(kernel: Kernel) -> Kernel:
    return kernel


def plain_kernels(spec: Spec, target: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Kernel, ...]:
    """Bind without eliding copies."""
    with monkeypatch.context() as patch:
        patch.setattr(binding, "elide_copies", unchanged)
        return binding.bind(spec.source, spec.file, target)[:1]


def check_values(kernel: Kernel) -> int:
    """Compare ``kernel`` with and without its copies; return how many regions are gone."""
    elided = elide_copies(kernel)
    cuts = cuts_of(kernel)
    for boundary, when in product((False, True), repeat=2):
        before = Machine(kernel, cuts).run(boundary=boundary, when=when)
        after = Machine(elided, cuts).run(boundary=boundary, when=when)
        assert {name: before[name] for name in after} == after
    return len(kernel.regions) - len(elided.regions)


@pytest.mark.parametrize(
    ("name", "target", "gone"),
    [("attention_fwd", "h200", 6), ("attention_fwd", "b200", 0), ("gemm_chain", "h200", 4)],
)
def test_shipped_copies(name: str, target: str, gone: int, monkeypatch: pytest.MonkeyPatch) -> None:
    (kernel,) = plain_kernels(read_spec(name), target, monkeypatch)
    assert check_values(kernel) == gone


# A chain of maps over one tile; random copies and rewritten reads are put into it.
CHAIN = """\
schedgen: 1
kernel: chain
targets: [b200]
arguments:
  x: {shape: [m, n], dtype: f32}
  y: {shape: [m, n], dtype: f32}
dimensions:
  half: {count: 2}
  part: {sizes: [96, 32]}
buffers:
  sX: {space: smem, shape: [64, 128]}
  A: {space: registers, shape: [64, 128]}
  B: {space: registers, shape: [64, 128], split: {columns: half}}
  C: {space: registers, shape: [64, 128], split: {columns: part}}
  D: {space: registers, shape: [64, 128], split: {rows: half}, lives: tile, initial: 0}
  E: {space: registers, shape: [64, 128], lives: tile, initial: 0}
  sY: {space: smem, shape: [64, 128], lives: tile}
loops: {trips: 4}
operations:
  body:
    - {id: LX, kind: load, from: x, to: sX}
    - {id: GET, kind: copy, from: sX, to: A}
    - {id: M0, kind: map, to: {B: A + 1}}
    - {id: M1, kind: map, to: {C: B * A}}
    - {id: M2, kind: map, to: {D: D@1 + C}}
    - {id: M3, kind: map, to: {E: E@1 + D}}
  after:
    - {id: PUT, kind: map, to: {sY: D + E}}
    - {id: ST, kind: store, from: sY, to: y}
"""
DIMENSION = {"B": ["half"], "C": ["part"], "D": ["half"]}


def variant(seed: int) -> Spec:
    """Return the chain with random copies between its registers, and random readers of them."""
    random_ = random.Random(seed)
    data = cast("dict[str, Any]", parse_spec(CHAIN).source.data)
    body: list[dict[str, Any]] = data["operations"]["body"]
    for number in range(random_.randint(1, 3)):
        place = random_.randint(2, len(body))
        source = random_.choice(written(body[:place]))
        to = random_.choice([name for name in "ABCDE" if name != source])
        over = random_.choice([[], DIMENSION.get(source, []), DIMENSION.get(to, [])])
        copy: dict[str, Any] = {"id": f"CP{number}", "kind": "copy", "from": source, "to": to}
        copy |= {"over": over} if over else {}
        copy |= {"when": "1 < 2"} if random_.random() < 0.1 else {}
        copy |= {"boundary": True} if random_.random() < 0.1 else {}
        body.insert(place, copy)
    for place, operation in enumerate(body):
        if isinstance(operation["to"], dict) and random_.random() < 0.4:
            ((name, formula),) = cast("dict[str, str]", operation["to"]).items()
            operand = random_.choice([*written(body[:place]), "D@1", "E@1"])
            operation["to"] = {name: f"{formula} - {operand}"}
    return spec_from_data(data)


def written(operations: list[dict[str, Any]]) -> list[str]:
    """Return the registers that some operations write."""
    names = [n for o in operations for n in ([o["to"]] if isinstance(o["to"], str) else o["to"])]
    return [name for name in dict.fromkeys(names) if name in "ABCDE"]


@pytest.mark.medium
def test_random_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    merged = kept = 0
    for seed in range(100):
        try:
            (kernel,) = plain_kernels(variant(seed), "b200", monkeypatch)
        except SpecError:
            continue
        gone = check_values(kernel)
        copies = sum(o.kind is Kind.COPY for o in elide_copies(kernel).operations) - 1
        merged += gone > 0
        kept += copies > 0
    assert merged > 15
    assert kept > 15


def chain(old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    """Bind the chain with one line changed, and check all values."""
    assert CHAIN.count(old) == 1
    (kernel,) = plain_kernels(parse_spec(CHAIN.replace(old, new)), "b200", monkeypatch)
    check_values(kernel)
    return elide_copies(kernel)


COPY = "    - {id: M1, kind: map, to: {C: B * A}}"
MAP = "    - {id: M2, kind: map, to: {D: D@1 + C}}"


def test_finer_pieces_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = chain("kind: map, to: {B: A + 1}", "kind: copy, from: A, to: B", monkeypatch)
    assert kernel.elided == (("M0", "A is B"),)
    assert kernel.operation["GET"].writes == ("B[0]", "B[1]")
    assert [read.piece for read in kernel.operation["M1"].reads] == ["B[0]", "B[1]"]
    assert dict(kernel.operation["M1"].operands)["A"] == ("B[0]", "B[1]")


def test_pieces_that_cross_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = chain(COPY, COPY.replace("map, to: {C: B * A}", "copy, from: B, to: C"), monkeypatch)
    assert kernel.elided == ()
    assert kernel.operation["M1"].kind is Kind.COPY


def test_copies_that_may_not_happen_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    copied = f"    - {{id: CP, kind: copy, boundary: true, from: A, to: C}}\n{MAP}"
    assert chain(MAP, copied, monkeypatch).elided == ()


def test_both_values_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = (
        "    - {id: CP, kind: copy, from: A, to: C}\n"
        "    - {id: UP, kind: map, to: {A: A + 1}}\n"
        "    - {id: M2, kind: map, to: {D: D@1 + C * A}}"
    )
    assert chain(MAP, changed, monkeypatch).elided == ()


def test_earlier_values_are_no_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    copied = f"    - {{id: CP, kind: copy, from: E@1, to: C}}\n{MAP}"
    assert chain(MAP, copied, monkeypatch).elided == ()


def test_two_starting_values_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    text = CHAIN.replace("lives: tile, initial: 0}\n  sY", "lives: tile, initial: 1}\n  sY")
    text = text.replace("kind: map, to: {E: E@1 + D}", "kind: copy, from: D, to: E")
    for start, gone in ((text, 0), (text.replace("initial: 1", "initial: 0"), 1)):
        (kernel,) = plain_kernels(parse_spec(start), "b200", monkeypatch)
        assert check_values(kernel) == gone


def test_copy_in_shared_ring_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    text = CHAIN.replace("loops:", "rings:\n  r: {buffers: [A, C], depth: 1}\nloops:")
    text = text.replace(COPY, COPY.replace("map, to: {C: B * A}", "copy, from: A, to: C"))
    text = text.replace("D@1 + C", "D@1 + C + B")
    (kernel,) = plain_kernels(parse_spec(text), "b200", monkeypatch)
    assert check_values(kernel) == 0
    assert kernel.rings[0].regions == ("A", "C")


def test_what_names_a_region_that_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tenants move to the region that is kept, and orders lose the copy."""
    text = CHAIN.replace("  sY:", "  T: {space: registers, shape: [64, 64], alias: own A}\n  sY:")
    text = text.replace("  part:", "  quarter: {count: 2}\n  part:")
    text = text.replace("kind: map, to: {B: A + 1}", "kind: copy, from: A, to: B")
    text = text.replace("  x: {", "  z: {shape: [m, n], dtype: f32}\n  x: {")
    text = text.replace(COPY, f"{COPY}\n    - {{id: USE, kind: mask, to: T, keep: row < 3}}")
    text = text.replace(
        "    - {id: USE", "    - {id: SET, kind: map, to: {T: row}}\n    - {id: USE"
    )
    text += "orders:\n  o: {sequence: [GET, M0, M1]}\n  p: {sequence: [GET, M0]}\n"
    (kernel,) = plain_kernels(parse_spec(text), "b200", monkeypatch)
    assert kernel.region["T"].options[0].host == "A"
    elided = elide_copies(kernel)
    assert elided.elided == (("M0", "A is B"),)
    assert elided.region["T"].options[0].host == "B"
    assert [order.sequence for order in elided.orders] == [(("GET", 0), ("M1", 0))]
