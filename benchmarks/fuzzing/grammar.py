"""Random well-formed specs: main loops of five families, work of threads on tiles, epilogues.

Each production draws from what the specs of the language can say; sizes are small, so that solving,
compiling and emulating take seconds. What comes out need not have a schedule: a refusal that says
what to do is a right answer.
"""

from __future__ import annotations

from random import Random

from fuzzing.sketch import Case, Sketch, Tile
from fuzzing.threads import epilogue, work

FAMILIES = {"product": 5.0, "chain": 3.0, "operand": 3.0, "stream": 3.0, "recurrence": 2.0}
_DTYPES = {"bf16": 8.0, "fp16": 3.0, "f32": 0.0}


def case(seed: int, number: int) -> Case:
    """The ``number``-th random spec of a seed, with a problem for it."""
    draw = Random(f"{seed}:{number}")
    target = draw.choice(["h200", "b200"])
    sketch = Sketch(draw, target)
    sketch.roles = sketch.weighted(
        {(): 5.0, ("one",): 3.0, ("one", "two"): 2.0, ("one", "two", "three"): 0.5}
    )
    family = sketch.weighted(FAMILIES)
    {
        "product": _products,
        "chain": _chain,
        "operand": _operand,
        "stream": _stream,
        "recurrence": _recurrence,
    }[family](sketch)
    sketch.data["loops"].setdefault("persistent", True)
    _fill_extents(sketch)
    inputs = "special" if sketch.chance(0.06) else "normal"
    return Case(number, target, sketch.finished(), sketch.extents, inputs, family)


def _rows(sketch: Sketch) -> int:
    """Rows of a tile; h200's warpgroups hold 64 each."""
    return 64 if sketch.target == "h200" else 128


def _dtype(sketch: Sketch) -> str:
    return sketch.weighted({"bf16": 8, "fp16": 3, "tf32": 0.3, "e4m3": 0.3})


def _depth(sketch: Sketch) -> object:
    return sketch.weighted({"auto": 4, 1: 1, 2: 3, 3: 1})


def _ragged(sketch: Sketch, block: int, *, most: int = 2) -> int:
    """An extent of about a few blocks, rarely a multiple."""
    whole = sketch.draw.randint(0, most) * block
    return max(1, whole + sketch.pick(0, 8, 1, block // 2, block - 3))


def _walk(sketch: Sketch, extent: str, step: int) -> None:
    """The main loop walks ``extent`` in tiles of ``step``."""
    size: object = step
    if sketch.chance(0.2):
        size = "step"
        sketch.data["parameters"]["step"] = {"default": step}
    sketch.data["loops"]["trips"] = f"ceil({extent} / {size})"
    sketch.data["parameters"][extent] = {"default": sketch.pick(4, 16, 64) * step}
    sketch.extents[extent] = _ragged(sketch, step, most=4)


def _fill_extents(sketch: Sketch) -> None:
    for argument in sketch.data["arguments"].values():
        for extent in argument["shape"]:
            sketch.extents.setdefault(extent, 2)


# -- families ----------------------------------------------------------------------------------


def _products(sketch: Sketch) -> None:
    """1 to 4 products that share the loop over k, and an epilogue."""
    dtype, rows = _dtype(sketch), _rows(sketch)
    columns = sketch.weighted({16: 2, 32: 4, 64: 4, 24: 0.5, 48: 0.5, 128: 1})
    step = sketch.weighted({16: 1, 32: 3, 64: 4})
    band = ""
    if sketch.target == "h200" and sketch.chance(0.25):
        rows, band = 128, "band"
        sketch.data["dimensions"]["band"] = {"count": 2}
    elif sketch.target == "h200" and sketch.chance(0.05):
        rows = 128
    count = sketch.weighted({1: 6, 2: 3, 3: 1, 4: 0.5}) if not band else 1
    batch = ["batch"] if sketch.chance(0.15) else []
    _walk(sketch, "k", step)
    sketch.extents["m"] = _ragged(sketch, rows, most=1)
    sketch.extents["n"] = _ragged(sketch, columns)
    a = _load(sketch, "a", [*batch, "m", "k"], (rows, step), dtype, band=band)
    results: list[Tile] = []
    b, across = "", False
    for number in range(count):
        if number and sketch.chance(0.3):
            a = _load(sketch, "a", [*batch, "m", "k"], (rows, step), dtype, band=band)
        if not number or sketch.chance(0.85):
            across = sketch.chance(0.5)
            shape = (columns, step) if across else (step, columns)
            extents = [*batch, "n", "k"] if across else [*batch, "k", "n"]
            b = _load(sketch, "b", extents, shape, dtype)
        split = {"rows": band} if band else None
        several = sketch.target == "b200" and sketch.chance(0.3)
        acc = sketch.buffer(
            "acc", sketch.accumulator, (rows, columns), lives="tile", initial=0, split=split,
            depth=sketch.pick(2, "auto") if several else None,
        )  # fmt: skip
        _mma(sketch, a, b, acc, across=across, accumulate=True, band=band)
        results.append(Tile(acc, "tile", sketch.accumulator, rows, columns))
    if sketch.chance(0.08):  # output tiles that share the main loop
        sketch.extents["part"] = sketch.pick(1, 2, 3)
        sketch.data["loops"].update(trips=f"ceil(k / ({step} * part))", split_k="part")
        sketch.data["parameters"]["part"] = {"default": 2}
        batch = [*batch, "part"]
    epilogue(sketch, results, dtype, [*batch, "m", "n"], band=band)


def _chain(sketch: Sketch) -> None:
    """Two products, the first one's result being an operand of the second: attention's loop."""
    dtype, rows = sketch.pick("bf16", "bf16", "fp16"), _rows(sketch)
    keys = sketch.pick(16, 32, 64)
    inner, width = sketch.pick(16, 32, 64), sketch.pick(16, 32, 64)
    if sketch.chance(0.2):
        sketch.data["dimensions"]["tile"] = {"count": 2}
        sketch.over = ["tile"]
    per = list(sketch.over)
    sketch.data["parameters"]["d"] = {"default": inner}
    _walk(sketch, "n", keys)
    sketch.extents.update(
        d=inner, w=_ragged(sketch, width, most=1), m=_ragged(sketch, rows, most=1)
    )
    if sketch.chance(0.3):
        sketch.extents["d"] = sketch.pick(inner, inner - 3)
        if sketch.extents["d"] != inner:
            del sketch.data["parameters"]["d"]
    heads, groups = _heads(sketch)
    if sketch.chance(0.1):
        count = 2 if per else 1
        sketch.data["loops"]["tile_trips"] = f"ceil((tile_row + 1) * {count * rows} / {keys})"
    q = sketch.buffer("sQ", "smem", (rows, inner), dtype=dtype, lives="tile")
    tensor = sketch.argument("q", [*heads, "m", "d"], dtype)
    sketch.operation("before", "LQ", "load", **{"from": tensor, "to": q})
    sketch.over = []
    shared = "kv" if width == inner else ""
    k = _load(sketch, "k", [*groups, "n", "d"], (keys, inner), dtype, ring=shared)
    v = _load(sketch, "v", [*groups, "n", "w"], (keys, width), dtype, ring=shared)
    sketch.over = per
    s = sketch.buffer("S", sketch.accumulator, (rows, keys))
    sketch.operation("body", "QK", "mma", a=q, b=k, transpose_b=True, d=s)
    r = sketch.buffer("rS", "registers", (rows, keys))
    sketch.operation("body", "LDS", "copy", threads=True, **{"from": s, "to": r})
    tile = Tile(r, "tile", "registers", rows, keys)
    scale = None
    if sketch.chance(0.4):
        scale = _online_softmax(sketch, tile)
    else:
        work(sketch, "body", tile, most=2, walked="n")
    factor = _cast(sketch, s, tile, dtype)
    o = sketch.buffer("O", sketch.accumulator, (rows, width), lives="tile", initial=0)
    if scale:
        more = {"when": f"{scale} < 1"} if sketch.chance(0.4) else {}
        sketch.operation("body", "FIX", "map", threads=True, to={o: f"{o}@1 * {scale}"}, **more)
    sketch.operation("body", "PV", "mma", a=factor, b=v, d=o, accumulate=True)
    results = [Tile(o, "tile", sketch.accumulator, rows, width)]
    epilogue(sketch, results, dtype, [*heads, "m", "w"])


def _cast(sketch: Sketch, scores: str, tile: Tile, dtype: str) -> str:
    """The tile in 16 bits where a product reads it, perhaps over what the scores leave."""
    p = sketch.buffer("rP", "registers", (tile.rows, tile.columns), dtype=dtype)
    sketch.operation("body", "CAST", "map", threads=True, to={p: sketch.formula(tile.name, [], 1)})
    through = "smem" if sketch.chance(0.25) else sketch.accumulator
    alias = None
    if through == "tmem" and sketch.chance(0.4):
        alias = sketch.pick(f"own {scores}", f"auto {scores}", [f"own {scores}", "none"])
    to = sketch.buffer("P", through, (tile.rows, tile.columns), dtype=dtype, alias=alias)
    sketch.operation("body", "STP", "copy", threads=True, **{"from": p, "to": to})
    return to


def _heads(sketch: Sketch) -> tuple[list[str], list[str]]:
    """Extents of several heads: of queries and results, and of keys and values."""
    heads, groups = [], []
    if sketch.chance(0.15):
        heads, groups = ["heads"], [sketch.pick("heads", "heads_k")]
        sketch.extents["heads"] = 2
        if groups == ["heads_k"]:
            sketch.data["loops"]["groups"] = {"heads_k": "heads"}
            sketch.extents["heads_k"] = sketch.pick(1, 2)
    return heads, groups


def _online_softmax(sketch: Sketch, tile: Tile) -> str:
    """Maximum, exponentials and their sum; the name of the factor of what was added up before."""
    m = sketch.buffer("mx", "registers", (tile.rows,), lives="tile", initial="-inf")
    total = sketch.buffer("l", "registers", (tile.rows,), lives="tile", initial=0)
    alpha = sketch.buffer("f", "registers", (tile.rows,))
    x = tile.name
    sketch.operation("body", "MASK", "mask", threads=True, to=x, boundary=True, keep="column < n")
    sketch.operation(
        "body", "MAX", "reduce", threads=True, op="max",
        **{"from": x, "carry": f"{m}@1", "to": m, "then": {alpha: f"exp2({m}@1 - {m})"}},
    )  # fmt: skip
    sketch.operation("body", "EXP", "map", threads=True, to={x: f"exp2({x} - {m})"})
    sketch.operation(
        "body", "SUM", "reduce", threads=True, op="sum",
        **{"from": x, "carry": f"{total}@1 * {alpha}", "to": total},
    )  # fmt: skip
    if sketch.chance(0.5):
        sketch.data["buffers"][total]["_vector"] = True  # for the epilogue
    return alpha


def _operand(sketch: Sketch) -> None:
    """A product of which threads make an operand in every iteration: a map, a transposition."""
    dtype, rows = sketch.pick("bf16", "bf16", "fp16"), _rows(sketch)
    columns, step = sketch.pick(32, 64), sketch.pick(32, 64)
    _walk(sketch, "k", step)
    sketch.extents.update(m=_ragged(sketch, rows, most=1), n=_ragged(sketch, columns))
    a = _load(sketch, "a", ["m", "k"], (rows, step), dtype)
    across = sketch.chance(0.6)
    shape, extents = ((columns, step), ["n", "k"]) if across else ((step, columns), ["k", "n"])
    b = _load(sketch, "b", extents, shape, dtype)
    match sketch.pick("b", "b", "a", "a registers", "a transposed"):
        case "b":
            alias = f"auto {b}" if sketch.chance(0.15) else None
            made = sketch.buffer("sF", "smem", shape, dtype=dtype, alias=alias)
            sketch.operation(
                "body", "FUN", "map", threads=True, to={made: sketch.formula(b, [], 2)}
            )
            b = made
        case "a":
            made = sketch.buffer("sF", "smem", (rows, step), dtype=dtype)
            others = [sketch.scalar()] if sketch.chance(0.4) else []
            sketch.operation(
                "body", "FUN", "map", threads=True, to={made: sketch.formula(a, others)}
            )
            a = made
        case "a registers":
            made = sketch.buffer("rA", "registers", (rows, step), dtype=dtype)
            sketch.operation("body", "FUN", "map", threads=True, to={made: sketch.formula(a, [])})
            a = made
            if sketch.target == "b200":
                a = sketch.buffer("tA", "tmem", (rows, step), dtype=dtype)
                sketch.operation("body", "PUT", "copy", threads=True, **{"from": made, "to": a})
        case _:  # through registers, to the transposed place
            raw = _load(sketch, "c", ["k", "m"], (step, rows), dtype)
            held = sketch.buffer("rA", "registers", (step, rows), dtype=dtype)
            sketch.operation("body", "GET", "copy", threads=True, **{"from": raw, "to": held})
            a = sketch.buffer("sT", "smem", (rows, step), dtype=dtype)
            sketch.operation(
                "body", "TURN", "copy", threads=True, **{"from": held, "to": a, "transposed": True}
            )
            sketch.data["operations"]["body"] = [
                o for o in sketch.data["operations"]["body"] if o.get("from") != "a"
            ]
            del sketch.data["arguments"]["a"], sketch.data["buffers"]["sA"]
    acc = sketch.buffer("acc", sketch.accumulator, (rows, columns), lives="tile", initial=0)
    _mma(sketch, a, b, acc, across=across, accumulate=True)
    epilogue(sketch, [Tile(acc, "tile", sketch.accumulator, rows, columns)], dtype, ["m", "n"])


def _stream(sketch: Sketch) -> None:
    """No product: tiles that are loaded, changed, and stored or added up."""
    rows, columns = _rows(sketch), sketch.pick(16, 32, 64)
    dtype = sketch.pick("f32", "bf16", "fp16")
    if sketch.chance(0.5):
        _walk(sketch, "n", columns)
        sketch.extents["m"] = _ragged(sketch, rows, most=1)
        x = _load(sketch, "x", ["m", "n"], (rows, columns), dtype)
        r = sketch.buffer("r", "registers", (rows, columns))
        sketch.operation("body", "GET", "map", threads=True, to={r: x})
        work(sketch, "body", Tile(r, "tile", "registers", rows, columns), most=2, walked="n")
        out = sketch.pick("f32", "bf16", dtype)
        y = sketch.buffer("sY", "smem", (rows, columns), dtype=out, depth=_depth(sketch))
        sketch.operation("body", "OUT", "map", threads=True, to={y: sketch.formula(r, [])})
        to = sketch.argument("y", ["m", "n"], out)
        sketch.operation("body", "STY", "store", **{"from": y, "to": to})
        return
    _walk(sketch, "part", 1)
    sketch.extents["part"] = sketch.draw.randint(1, 5)
    sketch.data["loops"]["trips"] = "part"
    sketch.extents.update(m=_ragged(sketch, rows, most=1), n=_ragged(sketch, columns))
    x = _load(sketch, "x", ["part", "m", "n"], (rows, columns), dtype)
    acc = sketch.buffer("acc", "registers", (rows, columns), lives="tile", initial=0)
    decay = sketch.pick("acc@1", "acc@1 * 0.5", "max(acc@1, 0)")
    sketch.operation(
        "body", "ADD", "map", threads=True, to={acc: f"{decay} + {sketch.formula(x, [], 1)}"}
    )
    epilogue(
        sketch,
        [Tile(acc, "tile", "registers", rows, columns)],
        sketch.pick("bf16", "f32"),
        ["m", "n"],
    )


def _recurrence(sketch: Sketch) -> None:
    """A state that is carried and decays: its rounded value is an operand of a product."""
    dtype, rows = "bf16", _rows(sketch)
    keys, inner, width = sketch.pick(16, 32, 64), sketch.pick(16, 32), sketch.pick(16, 32)
    _walk(sketch, "n", keys)
    sketch.data["parameters"]["d"] = {"default": inner}
    sketch.extents.update(
        d=inner, w=_ragged(sketch, width, most=1), m=_ragged(sketch, rows, most=1)
    )
    q = sketch.buffer("sQ", "smem", (rows, inner), dtype=dtype, lives="tile")
    sketch.operation(
        "before", "LQ", "load", **{"from": sketch.argument("q", ["m", "d"], dtype), "to": q}
    )
    k = _load(sketch, "k", ["n", "d"], (keys, inner), dtype)
    v = _load(sketch, "v", ["n", "w"], (keys, width), dtype)
    decay = "0.5"
    if sketch.chance(0.5):
        shape, extents = sketch.pick(((1, width), ["n", "w"]), ((1, width), ["w"]))
        if extents == ["w"]:
            slope = sketch.buffer("sG", "smem", shape, dtype="f32", lives="tile")
            sketch.operation(
                "before",
                "LG",
                "load",
                **{"from": sketch.argument("g", extents, "f32"), "to": slope},
            )
        else:
            slope = sketch.buffer("sG", "smem", shape, dtype="f32", lives="tile")
            sketch.operation(
                "before",
                "LG",
                "load",
                **{"from": sketch.argument("g", ["h", "w"], "f32"), "to": slope},
            )
            sketch.extents["h"] = 1
        decay = f"sigmoid({slope})"
    s = sketch.buffer("S", sketch.accumulator, (rows, keys))
    sketch.operation("body", "QK", "mma", a=q, b=k, transpose_b=True, d=s)
    r = sketch.buffer("rS", "registers", (rows, keys))
    sketch.operation("body", "LDS", "copy", threads=True, **{"from": s, "to": r})
    if sketch.chance(0.6):
        keep = sketch.pick("column < n", "column <= row", "column < n and column + 8 > row")
        sketch.operation("body", "MASK", "mask", threads=True, to=r, keep=keep, value="0")
    p = sketch.buffer("rP", "registers", (rows, keys), dtype=dtype)
    sketch.operation("body", "CAST", "map", threads=True, to={p: f"{r} * 0.25"})
    P = sketch.buffer("P", sketch.accumulator, (rows, keys), dtype=dtype)
    sketch.operation("body", "STP", "copy", threads=True, **{"from": p, "to": P})
    h = sketch.buffer("H", sketch.accumulator, (rows, width), lives="tile", initial=0)
    sketch.operation("body", "DECAY", "map", threads=True, to={h: f"{h}@1 * {decay}"})
    sketch.operation("body", "PV", "mma", a=P, b=v, d=h, accumulate=True)
    epilogue(sketch, [Tile(h, "tile", sketch.accumulator, rows, width)], dtype, ["m", "w"])


# -- pieces ------------------------------------------------------------------------------------


def _load(
    sketch: Sketch,
    stem: str,
    extents: list[str],
    shape: tuple[int, int],
    dtype: str,
    *,
    band: str = "",
    ring: str = "",
) -> str:
    """A tile that is loaded in every iteration; its buffer. ``ring``: perhaps shared slots."""
    tensor = sketch.argument(stem, extents, dtype)
    shared = ring and (ring in sketch.data["rings"] or sketch.chance(0.5))
    split = {"rows": band} if band else None
    depth = None if shared else _depth(sketch)
    name = sketch.buffer(f"s{stem.upper()}", "smem", shape, dtype=dtype, split=split, depth=depth)
    if shared:
        entry = sketch.data["rings"].setdefault(ring, {"buffers": [], "depth": "auto"})
        entry["buffers"].append(name)
    sketch.operation("body", f"L{stem.upper()}", "load", **{"from": tensor, "to": name})
    return name


def _mma(
    sketch: Sketch, a: str, b: str, d: str, *, across: bool, accumulate: bool, band: str = ""
) -> None:
    keys: dict[str, object] = {"a": a, "b": b, "d": d}
    if across:
        keys["transpose_b"] = True
    if accumulate:
        keys["accumulate"] = True
    if band:
        keys["over"] = [band]
    sketch.operation("body", "MMA", "mma", threads=sketch.target == "h200" and not band, **keys)
