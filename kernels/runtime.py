"""The runtime library of CuTe DSL, which loads and calls compiled objects.

Its interface is documented in ``CuteDSLRuntime.h`` and in the guide "Ahead-of-Time Compilation"
of CUTLASS. Through it a process calls kernels without importing the compiler.
"""

from __future__ import annotations

import ctypes
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from schedgen.kernels.errors import DeviceError, LaunchError

_NAME = "libcute_dsl_runtime.so"


def function(code: bytes, symbol: str) -> ctypes.c_void_p:
    """Loads the object ``code`` on all GPUs; the host function that ``symbol`` begins.

    Raises:
        DeviceError: the runtime library is not installed.
        LaunchError: the driver refuses the object.
    """
    library = _library()
    module, found = ctypes.c_void_p(), ctypes.c_void_p()
    status = library.CuteDSLRT_Module_Create_From_Bytes(
        ctypes.byref(module), code, ctypes.c_size_t(len(code)), None, ctypes.c_size_t(0)
    )
    _check(library, status, symbol)
    status = library.CuteDSLRT_Module_Get_Function(
        ctypes.byref(found), module, symbol.encode("ascii")
    )
    _check(library, status, symbol)
    return found  # the module stays loaded as long as the process runs


def caller() -> int:
    """The address of what `call` calls: ``int32_t run(void *function, void **arguments, size_t)``,
    which returns 0 for success.
    """
    return ctypes.cast(_library().CuteDSLRT_Function_Run, ctypes.c_void_p).value or 0


def call(function: ctypes.c_void_p, arguments: Any, count: int) -> None:
    """Calls a host function; ``arguments`` is an array of ``count`` pointers."""
    library = _library()
    status = library.CuteDSLRT_Function_Run(function, arguments, count)
    if status:
        _check(library, status, "the kernel")


def _check(library: ctypes.CDLL, status: int, what: str) -> None:
    if status:
        text = library.CuteDSLRT_GetErrorString(status)
        raise LaunchError(f"{what}: {text.decode()} (CuTe DSL runtime, status {status})")


@cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(_path()))
    library.CuteDSLRT_GetErrorString.restype = ctypes.c_char_p
    library.CuteDSLRT_Function_Run.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    return library


def _path() -> Path:
    """Where the runtime library is. The DSL knows, but importing it takes a second."""
    spec = find_spec("nvidia_cutlass_dsl")
    roots = list(spec.submodule_search_locations or ()) if spec else []
    found = sorted({p for root in roots for p in Path(root).glob(f"*/lib/{_NAME}")})
    found = found or sorted({p for root in roots for p in Path(root).glob(f"lib/{_NAME}")})
    if len(found) == 1:
        return found[0]
    try:  # none where it is expected, or one for each version of CUDA
        dsl: Any = import_module("cutlass.cute.runtime")
        named = [Path(p) for p in dsl.find_runtime_libraries(enable_tvm_ffi=False)]
    except ImportError:
        named = []
    for path in named:
        if path.name == _NAME and path.exists():
            return path
    raise DeviceError(f"{_NAME} is missing; fix: pip install 'nvidia-cutlass-dsl>=4.8'")
