"""Times candidates on the GPU that is there, as `schedgen bench` times kernels beside their peers.

Eagerly: the L2 cache is overwritten before each launch, nothing is queued ahead, and what a call
takes on the host counts. In CUDA graphs: launches that follow each other. The clock has risen
before the first one, and candidates take turns in a random order.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import date
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from schedgen.benchmarks.timing import Run, eagerly, error, in_graphs, in_turns, warm
from schedgen.codegen.compiling import CompileError
from schedgen.codegen.facts import Facts, read_facts
from schedgen.kernels import turns
from schedgen.kernels.cache import compiled, toolchain
from schedgen.kernels.errors import DeviceError, KernelError, LaunchError
from schedgen.kernels.launcher import architecture, multiprocessors
from schedgen.kernels.of_file import GeneratedKernel
from schedgen.kernels.recording import check_device, inputs
from schedgen.tuning.measuring import Timed
from schedgen.tuning.records import Manifest
from schedgen.tuning.shapes import Shape

THEN = "tune --record FILE"
"""What reads a record."""
_COMPILERS = 8
"""At a time."""
_RUNS = 20
"""Of each candidate in a round."""
_ALLOWED = 0.01
"""By how much results of two candidates may differ, in the norm: they round 16-bit numbers, to
within 0.004 of themselves, in other places."""


class GpuBench:
    """`schedgen.tuning.measuring.Bench` for the current GPU.

    Raises DeviceError: there is none, or candidates are for another one.
    """

    def __init__(self, manifest: Manifest, folder: Path) -> None:
        self._gpu = check_device(THEN)
        here = architecture(self._gpu)
        if manifest.arch != here:
            raise DeviceError(
                f"the candidates are for {manifest.arch}, and this GPU is {here}; fix: prepare "
                "others with --target"
            )
        self.device = torch.cuda.get_device_name(self._gpu)
        self.software = f"torch {torch.__version__}, {toolchain()}"
        self.date = date.today().isoformat()
        self.mhz = 0.0
        self._shapes = manifest.shapes
        self._kernels: dict[str, GeneratedKernel] = {}
        self._failed: dict[str, str] = {}
        self._warm = False
        for one in manifest.candidates:
            self._kernels[one.name] = GeneratedKernel(folder / one.file)
        _compile([kernel.path for kernel in self._kernels.values()], self._gpu)

    def failed(self) -> Mapping[str, str]:
        """Candidates that do not run with some shape, or compute something else than the first."""
        for shape in self._shapes:
            wanted: list[Tensor] = []
            for name, (run, results) in self._runs(dict(shape)).items():
                reason = self._tried(name, run, results, wanted)
                if reason:
                    self._failed[name] = reason
                    del self._kernels[name]
        return self._failed

    def round(self, shape: Shape) -> Mapping[str, Timed]:
        runs = {name: run for name, (run, _) in self._runs(shape).items()}
        if not self._warm:
            warm(next(iter(runs.values())))
            self._warm = True
        called = eagerly(runs, _RUNS)
        graphs = in_graphs(runs, in_turns(runs, _RUNS))
        self.mhz = next(iter(called.values())).clock
        return {n: Timed(called[n].milliseconds, graphs.get(n)) for n in runs}

    def _runs(self, shape: Shape) -> dict[str, tuple[Run, list[Tensor]]]:
        """Candidates as functions without arguments, and where their results are. All have the same
        tensors.
        """
        made: dict[str, tuple[Run, list[Tensor]]] = {}
        tensors: dict[str, Tensor] = {}

        def run(kernel: GeneratedKernel, given: list[Tensor | float]) -> None:
            turns.begin(kernel.facts, tensors)
            kernel(*given)

        for name, kernel in self._kernels.items():
            facts = kernel.facts
            if not tensors:
                tensors.update(inputs(facts, _extents(facts, shape), self._gpu))
            numbers = [shape[scalar.name] for scalar in facts.scalars]
            given = [*(tensors[p.name] for p in facts.tensors), *numbers]
            made[name] = partial(run, kernel, given), [tensors[output] for output in facts.outputs]
        return made

    def _tried(self, name: str, run: Run, results: list[Tensor], wanted: list[Tensor]) -> str:
        """Why a candidate fails, empty if it does not; the first results are what is ``wanted``."""
        for result in results:
            result.zero_()
        try:
            run()
            torch.cuda.synchronize()
        except (CompileError, LaunchError) as refused:
            return str(refused).splitlines()[0]
        except KernelError:
            raise
        except RuntimeError as broken:  # nothing more can run in this process
            raise LaunchError(f"candidate {name} breaks off: {broken}; fix: report it") from None
        if not wanted:
            wanted.extend(result.clone() for result in results)
        for result, right in zip(results, wanted, strict=True):
            distance = error(result, right.double())
            if not distance <= _ALLOWED:  # also if it is not a number
                return f"its results are {distance:.2g} from those of the first candidate"
        return ""


def _compile(paths: Sequence[Path], gpu: torch.device) -> None:
    """Fills the cache, several at a time; what does not compile says so when it is called."""

    def one(path: Path) -> None:
        with suppress(CompileError):
            compiled(path, read_facts(path), multiprocessors(gpu))

    with ThreadPoolExecutor(min(_COMPILERS, os.cpu_count() or 1)) as pool:
        list(pool.map(one, paths))


def _extents(facts: Facts, shape: Shape) -> dict[str, int]:
    """The sizes among the numbers of a shape."""
    names = {extent for parameter in facts.tensors for extent in parameter.extents}
    return {name: int(shape[name]) for name in shape if name in names}


def bench(manifest: Manifest, folder: Path) -> GpuBench:
    """The bench of the GPU that is there. Raises DeviceError, EmitError: a file is no kernel."""
    for one in manifest.candidates:
        read_facts(folder / one.file)  # a missing file is found before there is any work
    return GpuBench(manifest, folder)
