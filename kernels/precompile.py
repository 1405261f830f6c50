"""Fills the compile cache: ``python -m schedgen.kernels.precompile``. No GPU is needed.

Made for images and clusters, where the first call should not compile: fill a cache once, copy its
folder (``SCHEDGEN_CACHE_DIR``) to machines with the same versions of CuTe DSL and processors of
the same kind. Entries are for GPUs with the number of SMs that ``--sms`` says.
"""

from __future__ import annotations

import argparse
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter

from schedgen.codegen.facts import read_facts
from schedgen.kernels import cache
from schedgen.kernels.library import FOLDER


def main() -> int:
    """The command line; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="files, or beginnings of their names")
    parser.add_argument("--arch", default="sm_90a", help="architecture; default: sm_90a")
    parser.add_argument("--sms", type=int, default=132, help="SMs of the GPU; default: 132")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="compilers at a time")
    options = parser.parse_args()

    def build(path: Path) -> None:
        begin = perf_counter()
        size = len(cache.compiled(path, read_facts(path), options.sms))
        print(f"{path.stem}: {size} bytes, {perf_counter() - begin:.1f} s", flush=True)

    files = sorted(FOLDER.glob(f"*_{options.arch}_*.py"))
    chosen = [f for f in files if f.name.startswith(tuple(options.names or ("",)))]
    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(build, chosen))
    print(f"{len(chosen)} kernels in {cache.folder()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
