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
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from typing import Any

from schedgen.emulator.launch.driver import FAILED, Driver, Function
from schedgen.emulator.launch.dsl import Dsl, installed
from schedgen.emulator.launch.errors import LaunchError

_WRAPPER = re.compile(r"_cu(da)?[A-Z]\w*")  # of a CUDA function
_TYPES: dict[str, Any] = {
    "ptr": ctypes.c_void_p,
    "i32": ctypes.c_int32,
    "i64": ctypes.c_int64,
    "void": None,
}
_PACKED = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
"""An entry as engines return it: takes pointers to its arguments and to its result."""
_SAFE_CALL = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p
)
"""``TVMFFISafeCallType`` of tvm/ffi/c_api.h."""
_INIT_ONCE = "cuda_dialect_init_library_once"
_SIGNATURES = {
    _INIT_ONCE: "i32 (ptr, ptr, ptr, ptr)",
    "_cudaLibraryLoadData": "i32 (ptr, ptr, ptr, ptr, i32, ptr, ptr, i32)",
    "_cudaLibraryGetKernel": "i32 (ptr, ptr, ptr)",
    "_cudaGetDevice": "i32 (ptr)",
    "_cudaSetDevice": "i32 (i32)",
    "_cudaLibraryUnload": "i32 (ptr)",
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

    Functions for apache-tvm-ffi have their entry made by `ffi` and called by `guarded`, all others
    are called by `run`.

    Raises:
        LaunchError: the function has no module, or its host code is not as the emulator expects.
    """

    def __init__(self, dsl: Dsl, function: Any, driver: Driver) -> None:
        if function.ir_module is None:
            raise LaunchError(
                f"{function.function_name} was loaded from an object file, which has no PTX; "
                "compile it with cute.compile inside of device(...)"
            )
        self._dsl = dsl
        self._function = function
        self._executor: Any = None
        self._loaded = False
        self._failure: BaseException | None = None
        self._engine = dsl.engine(function.ir_module, shared_libs=_libraries(dsl))
        self._callbacks: list[Any] = [  # the engine has only their addresses
            self._define(name, signature, driver.functions | {_INIT_ONCE: self._load_once})
            for name, signature in _declared(function.ir_module)
        ]

    def ffi(self) -> Any:
        """Return the function as one of apache-tvm-ffi, which loads its kernels when it is called.

        It checks its arguments itself, and so has to be given tensors on a GPU.
        """
        from tvm_ffi import Function as FfiFunction  # pyright: ignore

        packed = _PACKED(self._engine.raw_lookup(f"__tvm_ffi_{self._function.function_name}"))

        def call(handle: int, arguments: int, count: int, result: int) -> int:
            status = ctypes.c_int32(0)
            values = (
                *(ctypes.c_void_p(handle), ctypes.c_void_p(arguments), ctypes.c_int32(count)),
                *(ctypes.c_void_p(result), status),
            )
            packed((ctypes.c_void_p * len(values))(*map(ctypes.addressof, values)))
            return status.value

        entry = _SAFE_CALL(call)
        self._callbacks.append(entry)
        address = ctypes.cast(entry, ctypes.c_void_p).value
        return FfiFunction.__from_extern_c__(address, keep_alive_object=self)  # pyright: ignore

    def run(self, arguments: list[Any]) -> int | None:
        """Run the host code and return what a compiled function returns.

        Args:
            arguments: pointers, as the DSL packs them.

        Raises:
            BaseException: what a callback raised. It cannot pass through host code, so host code
                is told that CUDA failed, and goes no further.
        """
        if self._executor is None:
            self._executor = self._prepared()
        return self.guarded(lambda: self._executor.run_compiled_program(arguments))

    def guarded(self, call: Callable[[], Any]) -> Any:
        """Return the result of `call`, which runs host code; raises what a callback raised."""
        self._failure = None
        try:
            result = call()
        except Exception:
            self._raise()
            raise
        self._raise()
        return result

    def _prepared(self) -> Any:
        """What packs arguments and calls the entry; handles of the kernels are there afterwards."""
        function = self._function
        if function.has_gpu_module:
            self._load()
        entry = self._engine.lookup(function.function_name)
        entry.restype = ctypes.c_int32  # tells the executor that it returns a cudaError_t
        module = self._dsl.module(self._engine, entry, function.execution_args, [])
        return self._dsl.executor(module, None, False)

    def _define(self, name: str, signature: str, functions: Mapping[str, Function]) -> Any:
        function = functions.get(name) or _refuse(name)
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

    def _load_once(self, *_: int | None) -> None:
        """In the place of what functions of apache-tvm-ffi call first: it would ask the driver."""
        if not self._loaded:
            self._load()
            self._loaded = True

    def _load(self) -> None:
        """Run what the DSL runs before the first call: it stores the handles of the kernels."""
        library, device, status = ctypes.c_void_p(), ctypes.c_int32(0), ctypes.c_int32(0)
        where = ctypes.c_void_p(ctypes.addressof(library))
        for name, values in (
            ("cuda_init", (where, status)),
            ("cuda_load_to_device", (where, device, status)),
        ):
            packed = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
            _PACKED(self._engine.raw_lookup(name))(packed)
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
    own = list(dsl.singletons[0].get_shared_libs())
    if find_spec("tvm_ffi") is None:
        return own
    from tvm_ffi.libinfo import find_libtvm_ffi  # pyright: ignore

    return [*own, find_libtvm_ffi()]  # pyright: ignore
