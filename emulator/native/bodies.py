"""Functions over the 32 lanes of registers, by name.

A body is named by what it computes and the types, as ``add.i32``, and gets the addresses of the
lanes of its target and of up to three sources.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from schedgen.emulator.native.body import Body, function
from schedgen.emulator.native.body_floats import floating
from schedgen.emulator.native.body_functions import FUNCTIONS, addresses, computed
from schedgen.emulator.native.body_integers import integers, permuted, table
from schedgen.emulator.native.engine import Engine


@cache
def bodies() -> dict[str, Body]:
    """All bodies but those with a number in their names (`body`), and `FUNCTIONS`."""
    return integers() | floating()


def body(name: str) -> Body | None:
    """The body of a name; None: it is one of `FUNCTIONS`."""
    word, _, number = name.partition(".")
    if word == "lop3":
        return table(int(number))
    if word == "prmt":
        return permuted(int(number))
    return None if word in FUNCTIONS else bodies()[name]


def text(name: str) -> str:
    """The function of a name."""
    found = body(name)
    return computed(name) if found is None else function(name, found)


_INTRINSICS = """
declare <8 x float> @llvm.fma.v8f32(<8 x float>, <8 x float>, <8 x float>)
declare <8 x float> @llvm.fabs.v8f32(<8 x float>)
declare <8 x double> @llvm.sqrt.v8f64(<8 x double>)
""" + "".join(
    f"declare <8 x i{n}> @llvm.{sign}{word}.v8i{n}(<8 x i{n}>, <8 x i{n}>)\n"
    for n in (16, 32, 64)
    for sign in "su"
    for word in ("min", "max")
)


class Bodies:
    """Addresses of bodies, compiled when they are first needed."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: dict[str, int] = {}

    def __getitem__(self, name: str) -> int:
        if name not in self._known:
            self.load([name])
        return self._known[name]

    def load(self, names: Sequence[str]) -> None:
        """Compiles some bodies at once, which costs less than one after the other."""
        new = [name for name in dict.fromkeys(names) if name not in self._known]
        if new:
            every = _INTRINSICS + "".join(map(text, new))
            known = {word: at for name in new for word, at in addresses(name).items()}
            self._known |= self._engine.compiled(every, new, known)
