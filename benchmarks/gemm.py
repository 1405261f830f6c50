"""Matrix products on the GPU at hand, beside torch and quack.

python benchmarks/gemm.py [--save]
"""

from __future__ import annotations

from report import keep, table

from schedgen.benchmarks.shipped import chain_rows, epilogue_rows, gemm_rows, symmetric_rows, where


def main() -> None:
    squares = [*gemm_rows(), *symmetric_rows(), *epilogue_rows()]
    chains = list(chain_rows())
    print(where())
    print(table(squares), table(chains), sep="\n\n")
    keep("gemm", [row | where() for row in (*squares, *chains)])


if __name__ == "__main__":
    main()
