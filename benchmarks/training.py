"""A small transformer on a GPU, trained with these functions and Muon, and with torch's.

    python benchmarks/training.py [--steps N] [--save]
    python benchmarks/muon_plot.py training      # draws docs/images/training.svg

Bytes of this repository's documentation; the same weights, batches and learning rates for both.
Products and attention have bfloat16 operands, weights are float32 and cast where they are used.
``schedgen`` calls `gemm` (with GELU), `attention` and `Muon` of `schedgen.kernels`, ``torch`` its
own linear layers, scaled_dot_product_attention and torch.optim.Muon; matrices inside of the blocks
go to Muon, the rest to AdamW. Ours is trained twice, and has to give the same bits. Prints losses
on held-out text, and milliseconds of a step; ``--save`` keeps them with all losses in between.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from report import keep, table
from torch import Tensor, nn
from torch.nn import functional

from schedgen.kernels import Muon, attention, gemm

ROOT = Path(__file__).parent.parent
SYMBOLS = 256
HELD = 8
"""Batches of held-out text."""
_HELD_SEED = 1 << 20


@dataclass(frozen=True, slots=True)
class Size:
    """Of a model and its training; losses are taken every so many steps."""

    width: int = 512
    heads: int = 4
    layers: int = 4
    context: int = 512
    batch: int = 16
    steps: int = 400
    every: int = 20


@dataclass(frozen=True, slots=True)
class Functions:
    """What a model is computed by.

    Attributes:
        linear: of rows, a matrix (outputs, inputs), and whether GELU follows.
        attend: of q, k and v, (batch, tokens, heads, head_dim), with a causal mask.
        muon: an optimizer of matrices.
    """

    linear: Callable[[Tensor, Tensor, bool], Tensor]
    attend: Callable[[Tensor, Tensor, Tensor], Tensor]
    muon: Callable[..., torch.optim.Optimizer]


def _linear(x: Tensor, weight: Tensor, gelu: bool) -> Tensor:
    return gemm(x, weight.mT, activation="gelu" if gelu else None)


def _attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return attention(q, k, v, causal=True)


def _linear_of_torch(x: Tensor, weight: Tensor, gelu: bool) -> Tensor:
    y = functional.linear(x, weight)
    return functional.gelu(y, approximate="tanh") if gelu else y


def _attend_of_torch(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)


FUNCTIONS = {
    "schedgen": Functions(_linear, _attend, Muon),
    "torch": Functions(_linear_of_torch, _attend_of_torch, torch.optim.Muon),
}


class Block(nn.Module):
    """Attention and a layer of GELUs that is four times as wide, each behind a norm."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        width = size.width
        self.heads = size.heads
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(2)])
        shapes = {"qkv": (3 * width, width), "out": (width, width)}
        shapes |= {"up": (4 * width, width), "down": (width, 4 * width)}
        self.weights = nn.ParameterDict(
            {name: nn.Parameter(torch.randn(n) * n[1] ** -0.5) for name, n in shapes.items()}
        )

    def forward(self, x: Tensor, by: Functions) -> Tensor:
        def linear(x: Tensor, name: str, gelu: bool = False) -> Tensor:
            return by.linear(x.bfloat16(), self.weights[name].bfloat16(), gelu)

        heads = (*x.shape[:2], self.heads, x.shape[2] // self.heads)
        q, k, v = (x.reshape(heads) for x in linear(self.norms[0](x), "qkv").chunk(3, -1))
        x = x + linear(by.attend(q, k, v).reshape(x.shape), "out")
        return x + linear(linear(self.norms[1](x), "up", gelu=True), "down")


class Model(nn.Module):
    """A transformer over bytes."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.tokens = nn.Parameter(torch.randn(size.width, SYMBOLS))
        self.places = nn.Parameter(torch.randn(size.context, size.width))
        self.blocks = nn.ModuleList([Block(size) for _ in range(size.layers)])
        self.norm = nn.LayerNorm(size.width)
        self.head = nn.Parameter(torch.zeros(SYMBOLS, size.width))

    def forward(self, x: Tensor, by: Functions) -> Tensor:
        # A product, since torch adds up gradients of an embedding in any order on a GPU.
        one = functional.one_hot(x, SYMBOLS).bfloat16()
        y = by.linear(one, self.tokens.bfloat16(), False).float() + self.places
        for block in self.blocks:
            y = block(y, by)
        return by.linear(self.norm(y).bfloat16(), self.head.bfloat16(), False).float()


def corpus() -> Tensor:
    """The bytes of documents."""
    files = [*sorted(ROOT.glob("docs/*.md")), ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
    return torch.tensor(list(b"".join(path.read_bytes() for path in files)))


def batch(data: Tensor, size: Size, seed: int, device: str) -> tuple[Tensor, Tensor]:
    """Inputs and what comes next, from places that ``seed`` says."""
    random = torch.Generator().manual_seed(seed)
    starts = torch.randint(len(data) - size.context - 1, (size.batch,), generator=random)
    places = starts[:, None] + torch.arange(size.context + 1)
    rows = data[places].to(device)
    return rows[:, :-1], rows[:, 1:]


def loss_of(model: Model, by: Functions, x: Tensor, y: Tensor) -> Tensor:
    return functional.cross_entropy(model(x, by).flatten(0, 1), y.flatten())


def trained(by: Functions, data: Tensor, size: Size, device: str) -> tuple[list[float], float]:
    """Losses on held-out text every few steps, and milliseconds of a step."""
    torch.manual_seed(0)
    model = Model(size).to(device)
    matrices = [p for block in model.blocks for p in block.parameters() if p.dim() == 2]
    chosen = set(matrices)
    others = [p for p in model.parameters() if p not in chosen]
    optimizers = [by.muon(matrices, lr=0.02, weight_decay=0.01), torch.optim.AdamW(others, lr=3e-3)]
    cut = len(data) * 9 // 10
    held = [batch(data[cut:], size, _HELD_SEED + n, device) for n in range(HELD)]
    losses, milliseconds = list[float](), list[float]()
    for step in range(size.steps + 1):
        if step % size.every == 0:
            with torch.no_grad():
                losses.append(sum(loss_of(model, by, x, y).item() for x, y in held) / HELD)
        x, y = batch(data[:cut], size, step, device)
        begin = perf_counter()
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss_of(model, by, x, y).backward()
        for optimizer in optimizers:
            optimizer.step()
        if device == "cuda":
            torch.cuda.synchronize()
        milliseconds.append(1e3 * (perf_counter() - begin))
    return losses, sorted(milliseconds)[len(milliseconds) // 2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=Size().steps)
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    size, data = Size(steps=options.steps), corpus()
    rows: list[dict[str, Any]] = []
    for name, by in FUNCTIONS.items():
        losses, milliseconds = trained(by, data, size, "cuda")
        row: dict[str, Any] = {"by": name, "first loss": losses[0], "last loss": losses[-1]}
        row = {k: round(x, 4) if isinstance(x, float) else x for k, x in row.items()}
        row["ms of a step"] = round(milliseconds, 2)
        if name == "schedgen":
            row["same bits"] = trained(by, data, size, "cuda")[0] == losses
        rows.append(row | {"every": size.every, "curve": [round(loss, 4) for loss in losses]})
    rows[0]["of torch's last loss"] = round(rows[0]["last loss"] / rows[1]["last loss"], 4)
    print(table([{k: v for k, v in row.items() if k not in ("every", "curve")} for row in rows]))
    if options.save:
        keep("training", rows)


if __name__ == "__main__":
    main()
