"""A small transformer, trained with this Muon and with torch.optim.Muon from the same seed.

    python benchmarks/muon_training.py [--save]

Characters of this repository's documentation, on the CPU; matrices inside of the blocks go to Muon,
the rest to AdamW. Same polynomial, learning rate and batches; torch iterates in bfloat16, this one
in float16. Prints losses on held-out text; benchmarks/muon_plot.py draws what --save has kept.
"""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from report import keep, table
from torch import Tensor, nn
from torch.nn import functional

from schedgen.kernels import Muon

STEPS, EVERY = 240, 20
WIDTH, HEADS, LAYERS, CONTEXT, BATCH = 96, 4, 2, 64, 24
ROOT = Path(__file__).parent.parent


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH) for _ in range(2)])
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.up = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.down = nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        heads = (*x.shape[:2], HEADS, WIDTH // HEADS)
        q, k, v = (
            part.reshape(heads).transpose(1, 2) for part in self.qkv(self.norms[0](x)).chunk(3, -1)
        )
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(x.shape))
        return x + self.down(functional.gelu(self.up(self.norms[1](x))))


class Model(nn.Module):
    def __init__(self, symbols: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(symbols, WIDTH)
        self.places = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList([Block() for _ in range(LAYERS)])
        self.head = nn.Linear(WIDTH, symbols)

    def forward(self, x: Tensor) -> Tensor:
        y = self.tokens(x) + self.places.weight
        for block in self.blocks:
            y = block(y)
        return self.head(y)


def corpus() -> tuple[Tensor, int]:
    """Numbers of characters, and how many kinds there are."""
    files = [*sorted(ROOT.glob("docs/*.md")), ROOT / "CONTRIBUTING.md"]
    text = "".join(path.read_text("utf-8") for path in files)
    symbols = sorted(set(text))
    number = {symbol: n for n, symbol in enumerate(symbols)}
    return torch.tensor([number[symbol] for symbol in text]), len(symbols)


def batch(data: Tensor, random: torch.Generator) -> tuple[Tensor, Tensor]:
    starts = torch.randint(len(data) - CONTEXT - 1, (BATCH,), generator=random)
    rows = torch.stack([data[n : n + CONTEXT + 1] for n in starts.tolist()])
    return rows[:, :-1], rows[:, 1:]


def trained(make: Any, data: Tensor, symbols: int) -> tuple[list[float], float]:
    """Losses on held-out text every few steps, and seconds that the optimizer took."""
    torch.manual_seed(0)
    model = Model(symbols)
    matrices = [p for block in model.blocks for p in block.parameters() if p.dim() == 2]
    chosen = set(matrices)
    others = [p for p in model.parameters() if p not in chosen]
    optimizers = [make(matrices), torch.optim.AdamW(others, lr=3e-3)]
    cut = len(data) * 9 // 10
    random = torch.Generator().manual_seed(1)
    held = [batch(data[cut:], torch.Generator().manual_seed(n)) for n in range(8)]
    losses, seconds = list[float](), 0.0
    for step in range(STEPS + 1):
        if step % EVERY == 0:
            with torch.no_grad():
                each = [functional.cross_entropy(model(x).mT, y).item() for x, y in held]
            losses.append(sum(each) / len(each))
        x, y = batch(data[:cut], random)
        loss = functional.cross_entropy(model(x).mT, y)
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        begin = perf_counter()
        for optimizer in optimizers:
            optimizer.step()
        seconds += perf_counter() - begin
    return losses, seconds


def main() -> None:
    data, symbols = corpus()
    options: dict[str, Any] = {"lr": 0.02, "weight_decay": 0.01}
    curves: dict[str, list[float]] = {}
    rows: list[dict[str, object]] = []
    for name, make in (("schedgen", Muon), ("torch", torch.optim.Muon)):
        curves[name], seconds = trained(lambda p, m=make: m(p, **options), data, symbols)
        rows.append(
            {
                "optimizer": name,
                "first loss": round(curves[name][0], 4),
                "last loss": round(curves[name][-1], 4),
                "optimizer s": round(seconds, 1),
                "every": EVERY,
                "curve": [round(loss, 4) for loss in curves[name]],
            }
        )
    rows[0]["of torch's last loss"] = round(curves["schedgen"][-1] / curves["torch"][-1], 4)
    print(table([{k: v for k, v in row.items() if k not in ("every", "curve")} for row in rows]))
    keep("muon_training", rows)


if __name__ == "__main__":
    main()
