"""Generated kernels of this checkout beside older ones of the same names, on the GPU at hand.

python benchmarks/before_after.py OLD_FOLDER [--save] [NAME ...]

OLD_FOLDER holds generated files, such as those of an earlier commit. Both files of a name compute
one problem, whose results have to be equal bit by bit or else the row says how far they differ;
times as all benchmarks here take them (`schedgen.benchmarks.timing`), and the same in CUDA graphs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from math import prod
from pathlib import Path

import torch
from report import keep, table
from torch import Tensor

from schedgen.benchmarks.timing import Row, in_graphs, in_turns
from schedgen.codegen.facts import Facts, read_facts
from schedgen.kernels import launcher, library

BEFORE, AFTER = "before", "schedgen"
SIZES = {
    **{"batch": 1, "heads": 16, "heads_k": 16, "seq_q": 8192, "seq_k": 8192, "part": 4},
    **{"depth": 128, "width": 128},
}
"""Extents by name."""
_OTHERS = 4096


def main() -> None:
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    if not words:
        raise SystemExit("give a folder of older generated files")
    older, names = Path(words[0]), words[1:]
    rows = [row for path in _files(older, names) for row in _rows(older / path.name, path)]
    print(table(rows))
    keep("before_after", rows)


def _files(older: Path, names: list[str]) -> Iterator[Path]:
    """Files for this GPU that both folders have, bf16 ones if no names are given."""
    here = launcher.architecture(torch.device("cuda", 0))
    for one in library.shipped([here]):
        wanted = (
            any(name in one.name for name in names)
            if names
            else one.kernel.settings.get("dtype") == "bf16"
        )
        if wanted and (older / one.name).exists():
            yield library.file(one)


def _rows(old: Path, new: Path) -> Iterator[Row]:
    facts, results = read_facts(new), dict[str, list[Tensor]]()
    candidates: dict[str, Callable[[], None]] = {}
    values = _values(facts, int(dict(facts.settings).get("head_dim", "128")))
    for name, path in ((BEFORE, old), (AFTER, new)):
        outputs = {n: torch.full_like(values[n], float("nan")) for n in facts.outputs}
        tensors = [(values | outputs)[parameter.name] for parameter in facts.tensors]
        run = launcher.launcher(path, torch.device("cuda", 0))
        candidates[name] = partial(run.launch, tensors, [1.0] * len(facts.scalars))
        candidates[name]()
        results[name] = list(outputs.values())
    torch.cuda.synchronize()
    timed = in_turns(candidates)
    graphs = in_graphs(candidates, timed)
    yield {
        "kernel": new.stem,
        "before ms": round(timed[BEFORE].milliseconds, 4),
        "after ms": round(timed[AFTER].milliseconds, 4),
        "before / after": round(timed[BEFORE].milliseconds / timed[AFTER].milliseconds, 3),
        "in graphs": round(graphs[BEFORE] / graphs[AFTER], 3),
        "results": _compared(results[BEFORE], results[AFTER]),
        "same text": "yes" if old.read_bytes() == new.read_bytes() else "no",
    }


def _values(facts: Facts, head_dim: int) -> dict[str, Tensor]:
    generator = torch.Generator("cuda").manual_seed(0)
    extents = SIZES | {"head_dim": head_dim, "head_dim_v": head_dim}
    found: dict[str, Tensor] = {}
    for parameter in facts.tensors:
        sizes = [extents.get(extent, _OTHERS) for extent in parameter.extents]
        x = torch.randn(prod(sizes), device="cuda", generator=generator).view(sizes)
        found[parameter.name] = x.to(launcher.DTYPES[parameter.dtype])
    return found


def _compared(before: list[Tensor], after: list[Tensor]) -> str:
    pairs = list(zip(before, after, strict=True))
    if all(torch.equal(x.isnan(), y.isnan()) for x, y in pairs):
        worst = max((x.float() - y.float()).nan_to_num(0.0).abs().max().item() for x, y in pairs)
        return f"{worst:.1e} apart" if worst else "equal"
    return "not written alike"


if __name__ == "__main__":
    main()
