"""What threads do with tiles in random specs: formulas, reductions, masks, exchanges; epilogues."""

from __future__ import annotations

import re
from typing import Any

from fuzzing.sketch import Sketch, Tile

_LIVES = {"before": "tile", "after": "tile", "body": None}


def work(sketch: Sketch, phase: str, tile: Tile, *, most: int, walked: str = "") -> list[str]:
    """Up to ``most`` changes of a tile in registers; names of values per row that came of them."""
    vectors: list[str] = []
    for _ in range(sketch.draw.randint(0, most)):
        step = sketch.weighted(
            {"map": 4, "mask": 2, "reduce": 3, "through smem": 1, "row": 1.5, "when": 0.5}
        )
        if step == "map":
            _map(sketch, phase, tile, vectors)
        elif step == "mask":
            _mask(sketch, phase, tile, walked)
        elif step == "reduce":
            vectors.append(_reduce(sketch, phase, tile))
        elif step == "through smem":
            _exchange(sketch, phase, tile)
        elif step == "row":
            _row(sketch, phase, tile, walked)
        elif vectors:
            what = sketch.pick(f"{tile.name} * max({vectors[-1]}, 0)", f"{tile.name} + 1")
            sketch.operation(
                phase, "IF", "map", threads=True, to={tile.name: what}, when=f"{vectors[-1]} < 1"
            )
    _use(sketch, phase, tile, vectors)
    return vectors


def _use(sketch: Sketch, phase: str, tile: Tile, vectors: list[str]) -> None:
    """Read the vectors that nothing reads yet."""
    operations = [o for part in sketch.data["operations"].values() for o in part]
    formula = tile.name
    for vector in dict.fromkeys(vectors):
        others = [o for o in operations if o.get("to") != vector]
        if not re.search(rf"\b{vector}\b", str(others)):
            formula = sketch.pick("({} - {})", "{} * sigmoid({})", "({} + {}) * 0.5").format(
                formula, vector
            )
    if formula != tile.name:
        sketch.operation(phase, "USE", "map", threads=True, to={tile.name: formula})


def _others(sketch: Sketch, vectors: list[str]) -> list[str]:
    """Names that a formula may use beside its tile."""
    names = list(vectors)
    if sketch.chance(0.3):
        names.append(sketch.scalar())
    if sketch.chance(0.15):
        names.append(sketch.pick("row / 64", "column / 32", "(row - column) / 16"))
    if sketch.chance(0.05):
        names.append(sketch.pick("tile_row", "tile_column"))
    return names


def _map(sketch: Sketch, phase: str, tile: Tile, vectors: list[str]) -> None:
    formula = sketch.formula(tile.name, _others(sketch, vectors), 3)
    to = {tile.name: formula}
    if vectors and sketch.chance(0.2):
        to[vectors[-1]] = f"{vectors[-1]} * 0.5"
    sketch.operation(phase, "MAP", "map", threads=True, to=to)


def _mask(sketch: Sketch, phase: str, tile: Tile, walked: str) -> None:
    extents = [e for a in sketch.data["arguments"].values() for e in a["shape"][-1:]]
    extent = walked or (sketch.pick(*extents) if extents else "8")
    keep = sketch.pick(
        f"column < {extent}", "column <= row", f"column < {extent} and column >= 2", "row >= 3",
        "column <= row + 4", f"column < {extent} - 1",
    )  # fmt: skip
    value = sketch.weighted({"0": 3, "-inf": 1, "-2": 1})
    sketch.operation(phase, "MASK", "mask", threads=True, to=tile.name, keep=keep, value=value)


def _reduce(sketch: Sketch, phase: str, tile: Tile) -> str:
    """A maximum or sum of rows, perhaps carried, and perhaps used at once."""
    op = sketch.pick("max", "sum")
    carried = phase == "body" and sketch.chance(0.5)
    more: dict[str, Any] = {}
    if carried:
        more = {"initial": 0 if op == "sum" else sketch.pick("-inf", 0), "lives": "tile"}
    elif phase != "body":
        more = {"lives": "tile"}
    space = "registers" if sketch.chance(0.9) else "smem"
    name = sketch.buffer("v", space, (tile.rows,), **more)
    keys: dict[str, Any] = {"op": op, "from": tile.name, "to": name}
    if carried:
        keys["carry"] = sketch.pick(f"{name}@1", f"{name}@1 * 0.5")
    if sketch.chance(0.3):
        keys["then"] = {name: sketch.pick(f"{name} * 0.125", f"rcp(abs({name}) + 1)")}
    sketch.operation(phase, "RED", "reduce", threads=True, **keys)
    return name


def _exchange(sketch: Sketch, phase: str, tile: Tile) -> None:
    """The tile goes through shared memory and comes back, perhaps transposed if it is square."""
    shape = (tile.rows, tile.columns)
    more = {"lives": _LIVES[phase]}
    if sketch.chance(0.5):
        box = sketch.buffer("sX", "smem", shape, **more)
        sketch.operation(phase, "PUT", "map", threads=True, to={box: tile.name})
        sketch.operation(phase, "GET", "map", threads=True, to={tile.name: f"{box} * 0.5"})
        return
    box = sketch.buffer("sX", "smem", shape[::-1], **more)
    sketch.operation(
        phase, "PUT", "copy", threads=True, **{"from": tile.name, "to": box, "transposed": True}
    )
    if tile.rows == tile.columns and sketch.chance(0.7):
        sketch.operation(phase, "GET", "copy", threads=True, **{"from": box, "to": tile.name})
    else:
        sketch.operation(
            phase, "GET", "copy", threads=True,
            **{"from": box, "to": tile.name, "transposed": True},
        )  # fmt: skip


def _row(sketch: Sketch, phase: str, tile: Tile, walked: str) -> None:
    """A value per column or per row, loaded from a vector or a matrix, is added or multiplied."""
    dtype = sketch.pick("f32", "bf16")
    extent = walked if walked and phase == "body" else "e"
    across = sketch.chance(0.7)
    shape = (1, tile.columns) if across else (tile.rows,)
    extents = [extent if across else "m"]
    if sketch.chance(0.3):
        extents = ["h", *extents]
    at = phase if extent == walked or phase == "after" else "before"
    more: dict[str, Any] = {} if at == "body" else {"lives": "tile"}
    if at == "before" and phase == "body" and sketch.chance(0.5):
        at, more = "body", {}
    sketch.extents.setdefault("e", tile.columns - sketch.pick(0, 0, 3))
    sketch.extents.setdefault("h", sketch.pick(1, 1, 3))
    name = sketch.buffer("sE", "smem", shape, dtype=dtype, **more)
    tensor = sketch.argument("e", extents, dtype)
    sketch.operation(at, "LE", "load", **{"from": tensor, "to": name})
    formula = sketch.pick("{x} + {e}", "{x} * {e}", "max({x}, {e})").format(x=tile.name, e=name)
    sketch.operation(phase, "ROW", "map", threads=True, to={tile.name: formula})


def epilogue(
    sketch: Sketch, results: list[Tile], dtype: str, extents: list[str], *, band: str = ""
) -> None:
    """Results go from accumulators to tensors: as a whole, or in slices."""
    dtype = dtype if dtype in ("bf16", "fp16", "f32") else "bf16"
    if sketch.chance(0.25):
        dtype = "f32"
    first, *rest = results
    if band or (sketch.chance(0.3) and first.columns >= 32):
        _slices(sketch, first, rest, dtype, extents, band)
        return
    tile = Tile(sketch.buffer("r", "registers", (first.rows, first.columns), lives="tile"),
                "tile", "registers", first.rows, first.columns)  # fmt: skip
    sketch.operation(
        "after", "BRING", "copy", threads=True, **{"from": first.name, "to": tile.name}
    )
    vectors = work(sketch, "after", tile, most=3)
    total = [n for n, b in sketch.data["buffers"].items() if b.pop("_vector", False)]
    if total:
        sketch.operation(
            "after",
            "NORM",
            "map",
            threads=True,
            to={tile.name: f"{tile.name} * rcp({total[0]} + 1)"},
        )
    others = [one.name for one in rest] if sketch.chance(0.7) else []
    _store(sketch, tile, others or _conditional(sketch, tile, dtype, extents), dtype, extents)
    if rest and not others:
        for one in rest:
            _store(sketch, one, [], dtype, extents)
    if vectors and sketch.chance(0.5):
        _store_vector(sketch, vectors[-1], tile.rows, tile.columns, extents)


def _conditional(sketch: Sketch, tile: Tile, dtype: str, extents: list[str]) -> list[str]:
    """A tile of another tensor, perhaps loaded on a condition."""
    if not sketch.chance(0.25):
        return []
    name = sketch.buffer("sC", "smem", (tile.rows, tile.columns), dtype=dtype, lives="tile")
    scalar = sketch.scalar()
    more = {"when": f"{scalar} != 0"} if sketch.chance(0.7) else {}
    tensor = sketch.argument("c", extents, dtype)
    sketch.operation("after", "LC", "load", **{"from": tensor, "to": name}, **more)
    if sketch.chance(0.3):
        sketch.extents[scalar] = 0
    return [f"{name} * {scalar}"]


def _store(sketch: Sketch, tile: Tile, others: list[str], dtype: str, extents: list[str]) -> None:
    """A tile to a tensor of its own, or rarely to one that is stored or read already."""
    box = sketch.buffer("sD", "smem", (tile.rows, tile.columns), dtype=dtype, lives="tile")
    formula = sketch.formula(tile.name, [], 2)
    for other in others:
        formula = sketch.pick("{} + {}", "{} * sigmoid({})", "max({}, {})").format(formula, other)
    sketch.operation("after", "EPI", "map", threads=True, to={box: formula})
    known = [
        n for n, a in sketch.data["arguments"].items() if a == {"shape": extents, "dtype": dtype}
    ]
    to = (
        sketch.pick(*known)
        if known and sketch.chance(0.1)
        else sketch.argument("d", extents, dtype)
    )
    sketch.operation("after", "STD", "store", **{"from": box, "to": to})


def _store_vector(sketch: Sketch, name: str, rows: int, columns: int, extents: list[str]) -> None:
    """Values per row to a tensor: of each output tile, or of all in a row of tiles."""
    box = sketch.buffer("sS", "smem", (rows,), lives="tile")
    sketch.operation(
        "after", "VEC", "map", threads=True, to={box: sketch.pick(f"{name} * 2", name)}
    )
    to = sketch.argument("s", extents[:-1], "f32")
    if sketch.chance(0.85):  # else every tile in a row of tiles stores them
        across = sketch.data["loops"].setdefault("one_tile", [])
        across += [extents[-1]] if extents[-1] not in across else []
        sketch.extents[extents[-1]] = min(sketch.extents[extents[-1]], columns)
    sketch.operation("after", "STS", "store", **{"from": box, "to": to})


def _slices(
    sketch: Sketch, first: Tile, rest: list[Tile], dtype: str, extents: list[str], band: str
) -> None:
    """The epilogue in slices of columns, which take turns in a ring."""
    count = sketch.pick(2, 2, 4)
    outer = list(sketch.over)
    for one in (first, *rest):
        split = sketch.data["buffers"][one.name].get("split") or {}
        sketch.data["buffers"][one.name]["split"] = {**split, "columns": "slice"}
    sketch.data["dimensions"]["slice"] = {"count": count}
    shape = (first.rows, first.columns // count)
    over = [*outer, "slice"]
    split = {"rows": band} if band else None
    ring = sketch.chance(0.6)
    sketch.over = over
    held = ""
    if sketch.chance(0.25):
        held = sketch.buffer("rD", "registers", shape, dtype=dtype, lives="tile", split=split)
        if sketch.chance(0.6):
            sketch.data["rings"]["r_stages"] = {"buffers": [held], "depth": 1}
    box = sketch.buffer("sD", "smem", shape, dtype=dtype, lives="tile", split=split)
    if ring:
        low = sketch.pick(1, 2)
        sketch.data["rings"]["d_stages"] = {"buffers": [box], "depth": [low, count]}
    formula = sketch.formula(first.name, [], 1)
    for one in rest:
        formula = f"{formula} + {one.name}"
    if sketch.chance(0.2):
        bias = sketch.buffer("sB0", "smem", (1, shape[1]), dtype=dtype, lives="tile")
        tensor = sketch.argument("bias", extents[-1:], dtype)
        sketch.operation("before", "LB0", "load", **{"from": tensor, "to": bias})
        formula = f"{formula} + {bias}"
    if sketch.chance(0.3):
        tensor = sketch.argument("c", extents, dtype)
        scalar = sketch.scalar()
        more = {"when": f"{scalar} != 0"} if sketch.chance(0.7) else {}
        sketch.operation("after", "LC", "load", **{"from": tensor, "to": box}, **more)
        formula = f"{formula} + {scalar} * {box}"
    both = [*over, band] if band else over
    role = {"role": "epilogue{band}"} if band and sketch.chance(0.5) else {}
    sketch.operation(
        "after", "EPI", "map", threads=not band, over=both, to={held or box: formula}, **role
    )
    if held:
        sketch.operation(
            "after", "PUT", "copy", threads=not band, over=both, **{"from": held, "to": box}, **role
        )
    sketch.operation(
        "after", "STD", "store", **{"from": box, "to": sketch.argument("d", extents, dtype)}
    )
    sketch.over = outer
    for buffer in sketch.data["buffers"].values():
        buffer.pop("_vector", None)
