"""Kernels that Triton compiles, diverted: Triton's own compiler makes PTX, which is executed.

Triton finds a driver for the GPU that is not there (`triton_driver`), and takes PTX for machine
code, so that ptxas is not asked. What it compiles is kept in a folder of its own: its cache on disk
has machine code of real GPUs, and PTX with lines of whichever file had the same text first.
"""

# Triton has no types that would say something here.
# pyright: reportMissingImports=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from sys import stderr
from time import perf_counter
from typing import Any

from schedgen.emulator.launch.diversion import set_attribute, set_environment
from schedgen.emulator.launch.errors import LaunchError
from schedgen.emulator.launch.targets import Target
from schedgen.emulator.launch.triton_driver import TritonReceiver, driver_of


def divert_triton(stack: ExitStack, gpu: Target, receiver: TritonReceiver, folder: str) -> None:
    """Make Triton compile for `gpu`, keep what it compiles in `folder`, and launch by `receiver`.

    Without Triton there is nothing to do.

    Raises:
        LaunchError: its version is one whose internals differ.
    """
    found = find_spec("triton")
    if found is None or found.origin is None:  # none, or a folder of that name
        return
    tuning = _Tuning()
    try:
        runtime: Any = import_module("triton.runtime.driver")
        compiler: Any = import_module("triton.backends.nvidia.compiler")
        jit: Any = import_module("triton.runtime.jit")
        set_environment(stack, "TRITON_CACHE_DIR", folder)
        set_attribute(stack, compiler.CUDABackend, "make_cubin", _machine_code)
        set_attribute(stack, runtime.driver, "_active", driver_of(gpu, receiver, tuning.dry))
        _forget_kernels(stack, jit.JITFunction)
        library: Any = import_module("triton._C.libtriton").nvidia
        set_attribute(stack, library.cublas, "CublasLt", _CublasLt)
        tuning.divert(stack)
    except (ImportError, AttributeError) as error:
        raise LaunchError(
            f"triton {version('triton')} is not what the emulator was written against ({error}); "
            "install 3.9.0, which is tested"
        ) from error


def _machine_code(self: Any, source: str, *_: Any) -> bytes:
    del self
    return source.encode()


def _forget_kernels(stack: ExitStack, function: Any) -> None:
    """Functions outlive the device, what they were compiled to for it must not."""
    plain = function.create_binder

    def create(self: Any) -> Any:
        stack.callback(self.device_caches.clear)
        return plain(self)

    set_attribute(stack, function, "create_binder", create)


class _CublasLt:
    """In the place of Triton's binding of cuBLAS, with which its own kernels are compared."""

    def __init__(self, workspace: Any) -> None: ...

    def matmul(self, a: Any, b: Any, c: Any) -> None:
        """a (m, k) times b (n, k) into c (m, n), computed in float32."""
        c.copy_(a.float() @ b.float().T)


class _Tuning:
    """Autotuning and benchmarks without a clock that would say something.

    Of an autotuner's configurations the first one is taken that compiles and fits; which one is the
    fastest on a GPU is not known here. A benchmark is its function, once.
    """

    def __init__(self) -> None:
        self._dry = 0

    def dry(self) -> bool:
        """Whether kernels are compiled and not executed: an autotuner tries configurations."""
        return self._dry > 0

    def divert(self, stack: ExitStack) -> None:
        tuner: Any = import_module("triton.runtime.autotuner")
        testing: Any = import_module("triton.testing")
        plain = tuner.Autotuner._bench
        tune = tuner.Autotuner.run

        def run(self: Any, *arguments: Any, **named: Any) -> Any:
            self.__dict__["_schedgen_taken"] = False
            return tune(self, *arguments, **named)

        def bench(this: Any, *arguments: Any, config: Any, **named: Any) -> Any:
            worst = [float("inf")] * 3
            if this.__dict__["_schedgen_taken"]:
                return worst
            this.__dict__["do_bench"] = _first
            self._dry += 1
            try:
                found = plain(this, *arguments, config=config, **named)
            finally:
                self._dry -= 1
                del this.__dict__["do_bench"]
            if found != worst:
                this.__dict__["_schedgen_taken"] = True
                name = this.base_fn.__name__
                print(f"{name}: not tuned, of its configurations {config} is taken", file=stderr)
            return found

        set_attribute(stack, tuner.Autotuner, "run", run)
        set_attribute(stack, tuner.Autotuner, "_bench", bench)
        for name in ("do_bench", "do_bench_cudagraph"):
            set_attribute(stack, testing, name, _once)


def _first(call: Callable[[], Any], quantiles: Sequence[float], **_: Any) -> list[float]:
    call()
    return [1.0] * len(quantiles)


def _once(
    fn: Callable[[], Any],
    *_: Any,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
    **__: Any,
) -> Any:
    """Milliseconds of the emulator, in the form in which Triton's benchmarks return times."""
    begin = perf_counter()
    fn()
    time = 1e3 * (perf_counter() - begin)
    if quantiles is not None:
        return [time] * len(quantiles) if len(quantiles) > 1 else time
    return [time] if return_mode == "all" else time
