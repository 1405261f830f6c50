"""The parts of nvidia-cutlass-dsl that capturing needs, all of them in one place.

They are not a documented interface, so every one is looked up here, and a version that lacks one
gets an error that says so. Written against 4.8.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from schedgen.emulator.launch.errors import LaunchError

_TESTED = "4.8.1"


@dataclass(frozen=True, slots=True)
class Dsl:
    """Classes and objects of the DSL, untyped as they are there.

    Attributes:
        singletons: the two compilers, for functions of ``cute`` and of ``cute.experimental``; the
            attribute ``envar`` holds their settings.
        tracer: base class of both; its method ``extract_dynamic_args`` sees the arguments of every
            compilation, and so of calls of functions that were not compiled before.
        function: what ``cute.compile`` returns.
        module: an engine and an entry point, as an executor takes it.
        executor: packs arguments and calls the entry point.
        engine: compiles MLIR to machine code; symbols can be given to it.
        options: options of a compilation; ``apply_envar_settings`` adds the settings to them.
        hardware: what drivers of persistent kernels ask for the number of clusters.
        tensor: class of tensors that are passed to compiled functions.
        pointer: class of pointers that are passed.
        global_space: the address space of tensors on a GPU; those on the CPU have another one.
        parse_type: makes an MLIR type from text.
        places: module that finds where in the source an operation of a kernel stands.
        location: class of places in MLIR.
    """

    singletons: tuple[Any, ...]
    tracer: Any
    function: Any
    module: Any
    executor: Any
    engine: Any
    options: Any
    hardware: Any
    tensor: Any
    pointer: Any
    global_space: Any
    parse_type: Any
    places: Any
    location: Any


@cache
def load() -> Dsl:
    """Import the DSL.

    Raises:
        LaunchError: it is not installed, or a version whose internals differ.
    """
    try:
        return _load()
    except (ImportError, AttributeError) as error:
        raise LaunchError(
            f"nvidia-cutlass-dsl {installed()} is not what the emulator was written against "
            f"({error}); install {_TESTED}, which is tested"
        ) from error


def installed() -> str:
    """Return the version of the DSL, for messages."""
    try:
        return version("nvidia-cutlass-dsl")
    except PackageNotFoundError:
        return "(not installed)"


def _load() -> Dsl:
    base: Any = import_module("cutlass.base_dsl.dsl")
    frontend: Any = import_module("cutlass.cutlass_dsl")
    executor: Any = import_module("cutlass.cutlass_dsl.cuda_jit_executor")
    engine: Any = import_module("cutlass._mlir.execution_engine")
    compiler: Any = import_module("cutlass.base_dsl.compiler")
    utils: Any = import_module("cutlass.utils")
    runtime: Any = import_module("cutlass.cute.runtime")
    ir: Any = import_module("cutlass._mlir.ir")
    return Dsl(
        singletons=(
            frontend.CuTeDSL._get_dsl(),
            frontend.CuteExperimentalDSL._get_dsl(),
        ),
        tracer=base.BaseDSL,
        function=executor.CudaDialectJitCompiledFunction,
        module=executor.CudaDialectJitModule,
        executor=executor.JitExecutor,
        engine=engine.ExecutionEngine,
        options=compiler.CompileOptions,
        hardware=utils.HardwareInfo,
        tensor=runtime._Tensor,
        pointer=runtime._Pointer,
        global_space=runtime.AddressSpace.gmem,
        parse_type=ir.Type.parse,
        places=_checked(
            import_module("cutlass._mlir_helpers.op"),
            ("_find_user_frame", "_is_framework_stack_frame", "_get_location_from_frame_info"),
        ),
        location=ir.Location,
    )


def _checked(module: Any, names: tuple[str, ...]) -> Any:
    """A module that has to have some names.

    Raises:
        AttributeError: it lacks one.
    """
    for name in names:
        getattr(module, name)
    return module
