"""Object files that compiled functions are exported to, and loaded from, inside of a device."""

# The packages have no types that would say something here.
# pyright: reportMissingImports=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from schedgen.emulator.launch.diversion import set_attribute
from schedgen.emulator.launch.diversion_ffi import FfiReceiver, called
from schedgen.emulator.launch.dsl import Dsl
from schedgen.emulator.launch.errors import LaunchError
from schedgen.emulator.launch.objects import Exported, keep, kept


def divert_objects(stack: ExitStack, dsl: Dsl, receiver: FfiReceiver) -> None:
    """Make object files that are written hold what launching takes, and launch those that do.

    Others have machine code and no PTX to execute: loading them is an error.
    """
    runtime: Any = import_module("cutlass.runtime")
    plain_export, plain_load = dsl.function.export_to_c, runtime.load_module

    def export(self: Any, file_path: Any, file_name: str, function_prefix: str = "") -> None:
        plain_export(self, file_path, file_name, function_prefix)
        path = Path(file_path) / f"{file_name}.o"
        keep(path, self, function_prefix or file_name, ffi=False)

    def load(file_path: Any, *, enable_tvm_ffi: bool = False) -> Any:
        found = kept(Path(file_path))
        if found.ffi != enable_tvm_ffi:
            raise LaunchError(
                f"{file_path} was exported from a function compiled with"
                f"{'' if found.ffi else 'out'} --enable-tvm-ffi; fix: load_module(…, "
                f"enable_tvm_ffi={found.ffi})"
            )
        if found.ffi:
            return _Module(Path(file_path), found, _ffi(found, receiver))
        loaded = getattr(plain_load(str(file_path)), found.name)
        loaded.ir_module, loaded.function_name = found.ir_module, found.function_name
        loaded.artifacts = SimpleNamespace(PTX=found.__ptx__, CUBIN=None)
        return _Module(Path(file_path), found, loaded)

    set_attribute(stack, dsl.function, "export_to_c", export)
    for module in (runtime, import_module("cutlass.cute.runtime")):
        set_attribute(stack, module, "load_module", load)
    if find_spec("tvm_ffi") is not None:
        _divert_ffi_export(stack)


def _divert_ffi_export(stack: ExitStack) -> None:
    from cutlass.cutlass_dsl import tvm_ffi_provider as provider

    base: Any = provider.TVMFFIJitCompiledFunctionBase
    plain = base.export_to_c

    def export(self: Any, object_file_path: Any, function_name: Any = None, **options: Any) -> None:
        plain(self, object_file_path, function_name, **options)
        if Path(object_file_path).suffix not in (".ll", ".bc"):
            keep(Path(object_file_path), self, function_name, ffi=True)

    set_attribute(stack, base, "export_to_c", export)


def _ffi(function: Exported, receiver: FfiReceiver) -> Callable[..., Any]:
    made = receiver.ffi(function)

    def call(*arguments: Any, **named: Any) -> Any:
        return called(receiver, function, made, arguments, named)

    return call


class _Module:
    """What ``load_module`` returns: its function is an attribute and an item."""

    def __init__(self, path: Path, exported: Exported, function: Callable[..., Any]) -> None:
        self._path = path
        self._exported = exported
        self._function = function

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name != self._exported.name:
            known = self._exported.name
            raise AttributeError(f"{self._path} has no function {name}; it has {known}")
        return self._function

    __getitem__ = __getattr__
