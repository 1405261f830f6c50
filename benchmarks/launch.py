"""What a call costs on the host, and small shapes as users call them, beside their peers.

python benchmarks/launch.py [--save]
"""

from __future__ import annotations

from report import keep, table

from schedgen.benchmarks.launch import eager_rows, host_rows
from schedgen.benchmarks.shipped import where


def main() -> None:
    host, eager = list(host_rows()), list(eager_rows())
    print(where())
    print(table(host), "", table(eager), sep="\n")
    rows = [{"table": "host"} | row for row in host] + [{"table": "eager"} | row for row in eager]
    keep("launch", [row | where() for row in rows])


if __name__ == "__main__":
    main()
