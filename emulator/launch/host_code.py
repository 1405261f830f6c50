"""Host code of a compiled function, on an engine whose CUDA calls come to us.

``cute.compile`` keeps the lowered module of a function. From it we make a second execution engine
and define the CUDA functions that the module declares as symbols of it, which are callbacks into
Python. Definitions of an engine win over shared libraries, so the runtime library of the DSL is
never asked, and neither a driver nor a C compiler is needed. The engine that belongs to the
function stays as it is.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterator
from typing import Any

from schedgen.emulator.launch.driver import FAILED, Driver
from schedgen.emulator.launch.dsl import Dsl, installed
from schedgen.emulator.launch.errors import LaunchError

_WRAPPER = re.compile(r"_cu(da)?[A-Z]\w*")  # of a CUDA function
_TYPES: dict[str, Any] = {
    "ptr": ctypes.c_void_p,
    "i32": ctypes.c_int32,
    "i64": ctypes.c_int64,
    "void": None,
}
_SIGNATURES = {
    "_cudaLibraryLoadData": "i32 (ptr, ptr, ptr, ptr, i32, ptr, ptr, i32)",
    "_cudaLibraryGetKernel": "i32 (ptr, ptr, ptr)",
    "_cudaGetDevice": "i32 (ptr)",
    "_cudaDeviceGetAttribute": "i32 (ptr, i32, i32)",
    "_cuKernelGetAttribute": "i32 (ptr, i32, ptr, i32)",
    "_cudaFuncSetAttribute": "i32 (ptr, i32, i32)",
    "_cudaKernelSetAttributeForDevice": "i32 (ptr, i32, i32, i32)",
    "_cudaLaunchKernelEx": "i32 (ptr, ptr, ptr)",
    "_cuTensorMapEncodeTiled": "i32 (ptr, i32, i32, ptr, ptr, ptr, ptr, ptr, i32, i32, i32, i32)",
    "cuda_dialect_assert_success": "void (i32)",
}


class HostCode:
    """The host code of `function`, a result of ``cute.compile``, answered by `driver`.

    Raises:
        LaunchError: the function has no module, or its host code is not as the emulator expects.
    """

    def __init__(self, dsl: Dsl, function: Any, driver: Driver) -> None:
        if function.ir_module is None:
            raise LaunchError(
                f"{function.function_name} was loaded from an object file, which has no PTX; "
                "compile it with cute.compile inside of device(...)"
            )
        self._failure: BaseException | None = None
        self._engine = dsl.engine(function.ir_module, shared_libs=_libraries(dsl))
        self._callbacks = [  # the engine has only their addresses
            self._define(name, signature, driver)
            for name, signature in _declared(function.ir_module)
        ]
        if function.has_gpu_module:
            self._load()
        entry = self._engine.lookup(function.function_name)
        entry.restype = ctypes.c_int32  # tells the executor that it returns a cudaError_t
        module = dsl.module(self._engine, entry, function.execution_args, [])
        self._executor = dsl.executor(module, None, False)

    def run(self, arguments: list[Any]) -> int | None:
        """Run the host code and return what a compiled function returns.

        Args:
            arguments: pointers, as the DSL packs them.

        Raises:
            BaseException: what a callback raised. It cannot pass through host code, so host code
                is told that CUDA failed, and goes no further.
        """
        self._failure = None
        try:
            result = self._executor.run_compiled_program(arguments)
        except Exception:
            self._raise()
            raise
        self._raise()
        return result

    def _define(self, name: str, signature: str, driver: Driver) -> Any:
        function = driver.functions.get(name) or _refuse(name)
        if signature != _SIGNATURES.get(name, signature):
            raise LaunchError(
                f"host code of nvidia-cutlass-dsl {installed()} calls {name} as {signature}, the "
                f"emulator expects {_SIGNATURES[name]}"
            )
        result, *parameters = (_TYPES[part] for part in re.findall(r"\w+", signature))
        callback = ctypes.CFUNCTYPE(result, *parameters)(self._guarded(function))
        self._engine.raw_register_runtime(name, ctypes.cast(callback, ctypes.c_void_p))
        return callback

    def _guarded(self, function: Callable[..., None]) -> Callable[..., int]:
        def call(*arguments: int | None) -> int:
            if self._failure is not None:
                return FAILED
            try:
                function(*arguments)
            except BaseException as failure:  # even an interrupt must not end in C
                self._failure = failure
                return FAILED
            return 0

        return call

    def _raise(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure from None

    def _load(self) -> None:
        """Run what the DSL runs before the first call: it stores the handles of the kernels."""
        library, device, status = ctypes.c_void_p(), ctypes.c_int32(0), ctypes.c_int32(0)
        where = ctypes.c_void_p(ctypes.addressof(library))
        for name, values in (
            ("cuda_init", (where, status)),
            ("cuda_load_to_device", (where, device, status)),
        ):
            packed = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
            entry = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
            entry(self._engine.raw_lookup(name))(packed)
            self._raise()


def _declared(module: Any) -> Iterator[tuple[str, str]]:
    """Yield names and types of the functions to define, of those that `module` has no code of."""
    for operation in module.body.operations:
        if operation.operation.name != "llvm.func" or len(operation.regions[0].blocks):
            continue
        name: str = operation.attributes["sym_name"].value
        if name in _SIGNATURES or _WRAPPER.fullmatch(name):
            yield name, str(operation.attributes["function_type"])[len("!llvm.func<") : -1]


def _refuse(name: str) -> Callable[..., None]:
    def call(*_: int | None) -> None:
        raise LaunchError(f"host code calls {name[1:]}, which the emulator does not have")

    return call


def _libraries(dsl: Dsl) -> list[str]:
    """Return libraries that host code may need besides CUDA, such as those of foreign functions."""
    return list(dsl.singletons[0].get_shared_libs())
