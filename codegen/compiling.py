"""Compiles a generated file with CuTe DSL in a process of its own; no GPU is needed.

A process of its own, because the DSL reads its environment once, on import, and because a program
that only calls compiled kernels need not load a compiler of 200 MB. Run as a module, this file is
that process.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from signal import Signals
from tempfile import TemporaryDirectory
from typing import Any

from schedgen.codegen.dtypes import DTYPES
from schedgen.codegen.errors import EmitError
from schedgen.codegen.facts import COUNTER, Facts, Parameter, read_facts
from schedgen.codegen.style import compile_options

_PACKAGES = ("", "-libs-base", "-libs-core", "-libs-cu12", "-libs-cu13")


@cache
def packages() -> tuple[str, ...]:
    """Names and versions of the packages that compile; none if CuTe DSL is not installed."""
    found: list[str] = []
    for suffix in _PACKAGES:
        name = f"nvidia-cutlass-dsl{suffix}"
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return tuple(found)


class CompileError(EmitError):
    """The DSL, or the assembler behind it, refused a file."""


class CompilerEnded(CompileError):
    """The process that compiles was ended from outside, which says nothing about the file."""


@dataclass(frozen=True, slots=True)
class Built:
    """Files that the compiler wrote: an object for the host with the kernel inside, PTX, cubin."""

    object: Path
    ptx: Path
    cubin: Path


def symbol(facts: Facts) -> str:
    """The prefix of symbols in the object, different for different files."""
    return f"schedgen_{facts.sha256[:16]}"


def compile_file(path: Path, folder: Path, *, sms: int) -> Built:
    """Compiles the generated file ``path`` for a GPU with ``sms`` SMs.

    Object, PTX, cubin and a C header go into ``folder``, named as the file.

    Raises:
        EmitError: it is not a generated file.
        CompileError: it does not compile, or the DSL is missing.
        CompilerEnded: a signal ended the compiler.
        OSError: the folder cannot be written.
    """
    read_facts(path)
    folder.mkdir(parents=True, exist_ok=True)
    # Settings of the caller's own kernels must not change this one.
    settings = {k: v for k, v in os.environ.items() if not k.startswith("CUTE_DSL_")}
    settings["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    run = subprocess.run(
        [sys.executable, "-P", "-m", __name__, str(path), str(folder), str(sms)],
        env=settings,
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode < 0:
        raise CompilerEnded(
            f"{path}: {Signals(-run.returncode).name} ended the process that compiles it; fix: try "
            "again, with more memory if that was short"
        )
    if run.returncode:
        raise CompileError(f"{path} does not compile:\n{_reason(run.stderr or run.stdout)}")
    return Built(*(folder / f"{path.stem}.{kind}" for kind in ("o", "ptx", "cubin")))


def first_lines(error: Exception, most: int = 6) -> str:
    """What ``error`` says in its first lines, each indented."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return "\n".join(f"  {line}" for line in lines[:most]) or f"  {type(error).__name__}"


def _reason(output: str) -> str:
    """The end of what a failed process said."""
    lines = [line for line in output.splitlines() if line.strip()]
    return "\n".join(f"  {line}" for line in lines[-15:]) or "  it printed nothing"


# -- in the process of its own --------------------------------------------------------------------


def _main(path: Path, folder: Path, sms: int) -> None:
    facts = read_facts(path)
    with TemporaryDirectory(prefix="schedgen-") as scratch:
        # Read on import. Without the architecture, and without a GPU, the DSL cannot export objects
        # (4.8.1).
        os.environ["CUTE_DSL_ARCH"] = facts.target
        os.environ["CUTE_DSL_NO_CACHE"] = "1"
        os.environ["CUTE_DSL_DUMP_DIR"] = scratch
        os.environ["CUTE_DSL_KEEP"] = "ptx,cubin"
        try:
            cute: Any = import_module("cutlass.cute")
        except ImportError as error:
            sys.exit(f"{error}; install nvidia-cutlass-dsl")
        launch, options = _module(path).launch, compile_options(facts.style)
        function = cute.compile(launch, *_arguments(facts), sms, _stream(), options=options)
        function.export_to_c(file_path=scratch, file_name="kernel", function_prefix=symbol(facts))
        for kind in ("o", "h", "ptx", "cubin"):
            found = list(Path(scratch).glob(f"*.{kind}"))  # named after all types of all arguments
            if len(found) != 1:
                sys.exit(f"the DSL wrote {len(found)} files *.{kind}, not one")
            shutil.move(found[0], folder / f"{path.stem}.{kind}")


def _module(path: Path) -> Any:
    """The generated module; the DSL reads its source, so it has to be a file."""
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        sys.exit(f"{path}: Python cannot import this; its name has to end in .py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _arguments(facts: Facts) -> list[Any]:
    cutlass: Any = import_module("cutlass")
    passed = (*facts.tensors, *([COUNTER] if facts.counted else []))
    tensors = [_tensor(cutlass, parameter) for parameter in passed]
    return [*tensors, *(getattr(cutlass, DTYPES[p.dtype])(1) for p in facts.scalars)]


def _tensor(cutlass: Any, parameter: Parameter) -> Any:
    """A tensor of any extents and strides, contiguous along its last axis."""
    runtime: Any = import_module("cutlass.cute.runtime")
    cute: Any = import_module("cutlass.cute")
    rank = len(parameter.extents)
    return runtime.make_fake_tensor(
        getattr(cutlass, DTYPES[parameter.dtype]),
        tuple(cute.sym_int32() for _ in range(rank)),
        (*(cute.sym_int64() for _ in range(rank - 1)), 1),
        assumed_align=16,
    )


def _stream() -> Any:
    driver: Any = import_module("cuda.bindings.driver")
    return driver.CUstream(0)


if __name__ == "__main__":
    _main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
