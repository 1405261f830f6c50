"""Attention forward on the GPU at hand, beside cuDNN, FlashAttention-2 and -4.

python benchmarks/attention.py [--save]
"""

from __future__ import annotations

from report import keep, table

from schedgen.benchmarks.shipped import attention_rows, where


def main() -> None:
    rows = list(attention_rows())
    print(where())
    print(table(rows))
    keep("attention", [row | where() for row in rows])


if __name__ == "__main__":
    main()
