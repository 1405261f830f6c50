"""Products with an activation and chained ones on the GPU at hand, beside torch.

python benchmarks/gemm.py [--save]

Plain and symmetric ones are in `benchmarks/h200.py`.
"""

from __future__ import annotations

from report import keep, table

from schedgen.benchmarks.shipped import chain_rows, epilogue_rows, where


def main() -> None:
    activated, chains = list(epilogue_rows()), list(chain_rows())
    print(where())
    print(table(activated), table(chains), sep="\n\n")
    keep("gemm", [row | where() for row in (*activated, *chains)])


if __name__ == "__main__":
    main()
