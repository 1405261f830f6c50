"""The small kernels of docs/bugs.md on a GPU: how often their results are wrong.

    python benchmarks/bugs.py [--launches N] [--save]

Each kernel in PTX runs N times (2000 by default) as reported and mended (lines behind `// fix:`),
both as they are and with one side of the race held back (lines behind `// late:`). A program that
is ordered does not mind how long a thread sleeps, so what the delay breaks was broken before; the
mended kernel has the same delay beside it. Results are compared with those of the mended kernel.
Kernels that need what the GPU has not are left out. Each runs in a process of its own, as an error
ends a context. Needs a GPU and its driver, and CuTe DSL for the kernels that are written in it.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import re
import subprocess
import sys
from array import array
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

from micro.driver import Driver
from report import RESULTS, environment, lines, table

FOLDER = Path(__file__).parents[1] / "docs" / "examples" / "bugs"
VARIANTS = (
    ("as reported", False, False), ("mended", True, False),
    ("as reported", False, True), ("mended", True, True),
)  # fmt: skip
_BUG = re.compile(r"// bug:\n.*\n")
_CLUSTER_DIMENSION = 4
_WRONG = re.compile(r"wrong in (\d+) of")
_TIMEOUT = 120

Row = dict[str, object]


class _Config(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        *((f"grid_{axis}", ctypes.c_uint) for axis in "xyz"),
        *((f"block_{axis}", ctypes.c_uint) for axis in "xyz"),
        ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("count", ctypes.c_uint),
    )


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute, of a cluster's dimensions."""

    _fields_ = (
        ("name", ctypes.c_int),
        ("pad", ctypes.c_char * 4),
        ("cluster", ctypes.c_uint * 3),
        ("rest", ctypes.c_char * 52),
    )


class Tensors:
    """Arguments of a launch as its launch.json says; the last of them is the result."""

    def __init__(self, driver: Driver, launch: dict[str, Any]) -> None:
        self._driver, self._launch = driver, launch
        self._contents = {name: self._filled(one) for name, one in launch["tensors"].items()}
        self._places = {name: driver.allocate(len(one)) for name, one in self._contents.items()}
        self._result = list(self._contents)[-1]

    @staticmethod
    def _filled(tensor: dict[str, Any]) -> bytes:
        count, kind = tensor["shape"][0], "f" if tensor["dtype"] == "float32" else "i"
        generator, fill = Random(0), tensor.get("fill", 0)
        if fill == "random":
            return array(kind, [generator.gauss(0, 1) for _ in range(count)]).tobytes()
        return array(kind, range(count) if fill == "arange" else [fill] * count).tobytes()

    def run(self, function: ctypes.c_void_p) -> bytes:
        """One launch from the tensors' first contents: what it leaves in the result."""
        for name, place in self._places.items():
            contents = self._contents[name]
            self._driver.call("cuMemcpyHtoD_v2", place, contents, ctypes.c_size_t(len(contents)))
        launch = self._launch
        clusters = _Attribute(_CLUSTER_DIMENSION, b"", tuple(launch.get("cluster", [1, 1, 1])))
        config = _Config(
            *launch["grid"], *launch["block"], 0, None, ctypes.addressof(clusters), 1,
        )  # fmt: skip
        places = [self._places[one["tensor"]] for one in launch["parameters"]]
        parameters = (ctypes.c_void_p * len(places))(*map(ctypes.addressof, places))
        self._driver.call("cuLaunchKernelEx", ctypes.byref(config), function, parameters, None)
        self._driver.call("cuCtxSynchronize")
        size = len(self._contents[self._result])
        found = ctypes.create_string_buffer(size)
        place = self._places[self._result]
        self._driver.call("cuMemcpyDtoH_v2", found, place, ctypes.c_size_t(size))
        return found.raw


def text_of(name: str, mended: bool, late: bool, arch: str) -> str:
    """A kernel's PTX for an architecture, as a variant."""
    text = (FOLDER / name / "kernel.ptx").read_text(encoding="utf-8")
    if mended:
        text = _BUG.sub("", text).replace("// fix: ", "")
    if late:
        text = text.replace("// late: ", "")
    return re.sub(r"(?m)^\.target \w+", f".target {arch}", text)


def _kernel(driver: Driver, ptx: str) -> ctypes.c_void_p:
    """The kernel of a PTX text."""
    found = re.search(r"\.entry (\w+)", ptx)
    assert found
    return driver.function(driver.load(ptx), found[1])


def wrong(name: str, mended: bool, late: bool, launches: int) -> Row:
    """How many launches leave something else than the mended kernel does, and the GPU's error."""
    driver = Driver()
    arch = driver.architecture()
    launch = json.loads((FOLDER / name / "launch.json").read_text(encoding="utf-8"))
    tensors = Tensors(driver, launch)
    expected = tensors.run(_kernel(driver, text_of(name, True, False, arch)))
    count = done = 0
    function = _kernel(driver, text_of(name, mended, late, arch))
    try:
        for _ in range(launches):
            count += tensors.run(function) != expected
            done += 1
    except RuntimeError as error:
        return {"launches": done + 1, "wrong": count, "error": str(error)}
    return {"launches": done, "wrong": count, "error": ""}


def _apart(*arguments: str) -> Row:
    """What a process of its own says."""
    command = [sys.executable, __file__, "--one", *arguments]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        return {"launches": "", "wrong": "", "error": f"no end in {_TIMEOUT} s"}
    if ran.returncode:
        return {"launches": "", "wrong": "", "error": ran.stderr.strip().splitlines()[-1]}
    return json.loads(ran.stdout)


def rows(launches: int, arch: str) -> Iterator[Row]:
    """All kernels that the GPU has the instructions of, in all variants that they have."""
    for path in sorted(FOLDER.glob("*/kernel.ptx")):
        text = path.read_text(encoding="utf-8")
        if "tcgen05" in text and arch.startswith("sm_9"):
            print(f"{path.parent.name}: needs tensor memory, which {arch} has not")
            continue
        for variant, mended, late in VARIANTS:
            if not late or "// late: " in text:
                said = _apart(path.parent.name, str(int(mended)), str(int(late)), str(launches))
                yield {"kernel": path.parent.name, "variant": variant, "held back": late, **said}


def script_rows(launches: int) -> Iterator[Row]:
    """The kernels in CuTe DSL, which say themselves how often they were wrong."""
    for path in sorted(FOLDER.glob("*/kernel.py")):
        for variant, mended, late in VARIANTS:
            if late and "--late" not in path.read_text(encoding="utf-8"):
                continue
            options = [*(["--fixed"] if mended else []), *(["--late"] if late else [])]
            command = [sys.executable, str(path), *options, "--times", str(launches)]
            ran = subprocess.run(command, capture_output=True, text=True, check=False)
            found = _WRONG.search(ran.stdout)
            if "No module named" in ran.stderr:
                print(f"{path.parent.name}: {ran.stderr.strip().splitlines()[-1]}")
                break
            if found:
                said: Row = {"launches": launches, "wrong": int(found[1]), "error": ""}
            else:
                error = _said(ran.stderr)
                said = {"launches": "", "wrong": "", "error": error}
            yield {"kernel": path.parent.name, "variant": variant, "held back": late, **said}


def _said(output: str) -> str:
    """The line of an output that says what went wrong: what CUDA says, else the last one."""
    every = output.strip().splitlines()
    return next(
        (line for line in every if "CUDA error" in line), every[-1] if every else "no output"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--launches", type=int, default=2000)
    parser.add_argument("--save", action="store_true")
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        name, mended, late, launches = options.one
        print(json.dumps(wrong(name, mended == "1", late == "1", int(launches))))
        return 0
    driver = Driver()
    every = chain(rows(options.launches, driver.architecture()), script_rows(options.launches))
    found = list(every)
    print(table(found))
    if options.save:
        where = {**environment(), "gpu": driver.name()}
        (RESULTS / "bugs.json").write_text(lines(where, found), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
