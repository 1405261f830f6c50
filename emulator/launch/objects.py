"""Object files of compiled functions that hold what the emulator needs, too.

``export_to_c`` writes an object file with host code and machine code. Inside of a device PTX and
host code as MLIR are put behind the end of the file, where linkers and loaders of ELF do not look:
caches may rename the file, and a GPU runs it as it was.
"""

# The packages have no types that would say something here.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingImports=false

from __future__ import annotations

import io
import json
import zlib
from base64 import b64decode, b64encode
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from schedgen.emulator.launch.errors import LaunchError

_MAGIC = b"schedgen-launch1"
_SIZE = 8
_FIX = (
    "delete it, so that it is compiled again, or let the program export it under schedgen race; "
    "quack and flash-attn-4 are told to use no cache"
)


@dataclass(frozen=True, eq=False)
class Exported:
    """A function from an object file, with the attributes of what ``cute.compile`` returns.

    Attributes:
        name: under which it was exported.
        ffi: whether it is one for apache-tvm-ffi.
    """

    name: str
    function_name: str
    ir_module: Any
    has_gpu_module: bool
    __ptx__: str
    ffi: bool
    execution_args: None = None


def keep(path: Path, function: Any, name: str, *, ffi: bool) -> None:
    """Put what is needed to launch `function`, exported as `name`, behind the end of its object.

    Raises:
        LaunchError: its PTX was not kept.
    """
    if function.has_gpu_module and function.__ptx__ is None:
        raise LaunchError(f"{path}: the PTX of {function.function_name} was not kept")
    code = io.BytesIO()
    function.ir_module.operation.write_bytecode(code)
    data = {
        "name": name,
        "function": function.function_name,
        "ptx": function.__ptx__ or "",
        "gpu": bool(function.has_gpu_module),
        "ffi": ffi,
        "host": b64encode(code.getvalue()).decode(),
    }
    packed = zlib.compress(json.dumps(data).encode())
    with path.open("ab") as file:
        file.write(packed + len(packed).to_bytes(_SIZE, "little") + _MAGIC)


def kept(path: Path) -> Exported:
    """Return the function in an object file.

    Raises:
        LaunchError: it has machine code only, or cannot be read.
    """
    ir: Any = import_module("cutlass._mlir.ir")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise LaunchError(f"{path}: {error.strerror}") from None
    if not data.endswith(_MAGIC):
        raise LaunchError(
            f"{path} is an object file with machine code and without PTX, which cannot be executed "
            f"here; fix: {_FIX}"
        )
    end = len(data) - len(_MAGIC) - _SIZE
    size = int.from_bytes(data[end : end + _SIZE], "little")
    try:
        read = json.loads(zlib.decompress(data[end - size : end]))
        with ir.Context():
            module = ir.Module.parse(b64decode(read["host"]))
    except (zlib.error, ValueError, KeyError) as error:
        raise LaunchError(f"{path}: what was added to it is broken: {error}; {_FIX}") from None
    return Exported(read["name"], read["function"], module, read["gpu"], read["ptx"], read["ffi"])
