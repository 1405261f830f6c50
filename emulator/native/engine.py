"""Machine code made by LLVM, called from Python, and what it knows of Python's and numpy's objects.

Functions are LLVM IR as text. They read lists and arrays where these are in memory, so that a call
costs no more than one of a builtin function. Offsets into objects are those of CPython's and
numpy's public headers; they are compared with real objects once. Where they differ, where llvmlite
is missing, or with ``SCHEDGEN_NATIVE=0`` in the environment, nothing is native: everything that is
has a way that needs numpy only, and gives the same.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

import numpy as np

from schedgen.emulator.native.cached import cached
from schedgen.emulator.native.linked import linked, variable

LIST_ITEMS = 24
"""Where a list has the address of its items (PyListObject.ob_item)."""
TYPE = 8
"""Where an object has its type (PyObject.ob_type)."""
DATA, RANK, SIZES, STRIDES, BASE, DESCRIPTION, FLAGS = 16, 24, 32, 40, 48, 56, 64
"""Where an array has what (PyArrayObject_fields)."""
CONTIGUOUS, OWNED = 0x1, 0x1 | 0x4 | 0x100 | 0x400
"""Flags of arrays: C_CONTIGUOUS; and with it OWNDATA, ALIGNED and WRITEABLE."""
_NEW_ARRAY = 94
"""PyArray_NewFromDescr in the table of numpy's C functions."""
_FASTCALL = 0x80
_UFUNC_LOOPS, _UFUNC_DATA = 32, 40
"""Where a ufunc has the addresses of its loops, and of what they are given (PyUFuncObject)."""

_LEVEL = 1
"""How much LLVM optimizes, 0 to 3: more is hardly faster, and takes longer where it is not kept."""

Builtin = Callable[..., Any]


_BIND = f"""
define ptr @bind(ptr %self, ptr %arguments, i64 %count) {{
  %data.at = getelementptr i8, ptr %self, i64 {DATA}
  %words = load ptr, ptr %data.at
  %method = load ptr, ptr %words
  %owner = load ptr, ptr %arguments
  %result = call ptr @made(ptr %method, ptr %owner, ptr null)
  ret ptr %result
}}
"""


class _Method(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("text", ctypes.c_char_p),
    )


class Engine:
    """Compiles functions, which stay for the life of the process.

    Args:
        llvm: the module ``llvmlite.binding``.
        version: of llvmlite.
    """

    def __init__(self, llvm: Any, version: str) -> None:
        self._llvm = llvm
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self._modules: list[object] = []
        self._methods: list[_Method] = []
        self._bound: dict[tuple[str, int], Builtin] = {}
        self._binds = 0
        """The address of what makes builtin functions."""
        features: Any = llvm.get_host_cpu_features()
        self.half = bool(features.get("f16c", False))
        """Whether the processor converts float16 by itself."""
        self._processor: tuple[str, str] = llvm.get_host_cpu_name(), features.flatten()
        made_for = llvm.get_default_triple(), *self._processor
        self._made_by = version, llvm.llvm_version_info, *made_for, _LEVEL
        """All that determines machine code but for the text."""

    def compiled(
        self, text: str, names: Iterable[str], addresses: Mapping[str, int]
    ) -> dict[str, int]:
        """Addresses of functions of a module.

        Args:
            text: LLVM IR.
            names: of the functions.
            addresses: what stands for addresses in the text (`linked.linked`).
        """
        llvm = self._llvm
        module = llvm.create_mcjit_compiler(llvm.parse_assembly(""), self._target())
        text = linked(text, addresses)
        code = cached(f"{self._made_by}\n{text}", lambda: self._object_code(text))
        module.add_object_file(llvm.ObjectFileRef.from_data(code))
        module.finalize_object()
        for word, address in addresses.items():
            place = module.get_global_value_address(variable(word))
            ctypes.c_int64.from_address(place).value = address
        self._modules.append(module)
        return {name: module.get_function_address(name) for name in names}

    def _object_code(self, text: str) -> bytes:
        return self._target().emit_object(self._llvm.parse_assembly(text))

    def _target(self) -> Any:
        cpu, features = self._processor
        target = self._llvm.Target.from_default_triple()
        return target.create_target_machine(cpu=cpu, features=features, opt=_LEVEL)

    def builtin(self, name: str, address: int, owner: object) -> Builtin:
        """A builtin function that gets ``owner`` as its first argument, then the array of its
        arguments and their number (METH_FASTCALL)."""
        bind = self._bound.get((name, address))
        if bind is None:
            bind = self._binding(name, address)
        return bind(owner)

    def _binding(self, name: str, address: int) -> Builtin:
        """What makes a builtin function with an owner: one itself, as there are thousands."""
        if not self._binds:
            called = {"@made": python("PyCFunction_NewEx")}
            self._binds = self.compiled(_BIND, ("bind",), called)["bind"]
        make = ctypes.pythonapi.PyCFunction_NewEx
        make.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
        make.restype = ctypes.py_object
        method = _Method(name.encode(), address, _FASTCALL, None)
        binding = _Method(b"bind", self._binds, _FASTCALL, None)
        self._methods += (method, binding)
        words = np.array([ctypes.addressof(method)], np.int64)
        bind: Builtin = make(ctypes.addressof(binding), words, None)
        self._bound[name, address] = bind
        return bind


@cache
def engine() -> Engine | None:
    """The engine, if there is one."""
    if os.environ.get("SCHEDGEN_NATIVE") == "0":
        return None
    if sys.implementation.name != "cpython" or sys.maxsize < 2**32:
        return None
    if not getattr(sys, "_is_gil_enabled", lambda: True)() or not _as_expected():
        return None
    try:
        llvmlite: Any = importlib.import_module("llvmlite")
        return Engine(importlib.import_module("llvmlite.binding"), llvmlite.__version__)
    except ImportError:
        return None


def python(name: str) -> int:
    """The address of a function of Python."""
    found = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
    assert found is not None
    return found


@cache
def new_array() -> int:
    """The address of numpy's function that makes an array."""
    table = np._core._multiarray_umath._ARRAY_API  # pyright: ignore
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.argtypes = [ctypes.py_object, ctypes.c_char_p]
    get.restype = ctypes.c_void_p
    return _word(get(table, None) + 8 * _NEW_ARRAY)


def loop(function: np.ufunc, types: str) -> tuple[int, int]:
    """The addresses of the loop of a ufunc for arguments of some types, such as ``d->d``, and of
    what it gets as its last argument."""
    known: list[str] = [*function.types]
    at = 8 * known.index(types)
    data = _word(id(function) + _UFUNC_DATA)
    return _word(_word(id(function) + _UFUNC_LOOPS) + at), _word(data + at) if data else 0


def _word(address: int) -> int:
    return ctypes.c_int64.from_address(address).value


def _as_expected() -> bool:
    """Whether lists and arrays have what is looked for where it is looked for."""
    array = np.arange(6, dtype=np.uint32).reshape(2, 3)[:, ::2]
    whole = np.zeros(32, np.uint32)
    items = [array, whole]
    at = id(array)
    place = _word(id(items) + LIST_ITEMS)
    return (
        [_word(place), _word(place + 8)] == [at, id(whole)]
        and _word(at + TYPE) == id(np.ndarray)
        and _word(at + DATA) == array.ctypes.data
        and ctypes.c_int.from_address(at + RANK).value == array.ndim
        and [_word(_word(at + SIZES) + 8 * axis) for axis in range(2)] == [*array.shape]
        and [_word(_word(at + STRIDES) + 8 * axis) for axis in range(2)] == [*array.strides]
        and _word(at + BASE) == id(array.base)
        and _word(id(whole) + BASE) == 0
        and _word(at + DESCRIPTION) == id(array.dtype) == id(np.dtype(np.uint32))
        and ctypes.c_int.from_address(id(whole) + FLAGS).value & OWNED == OWNED
        and not ctypes.c_int.from_address(at + FLAGS).value & CONTIGUOUS
    )
