"""Names of a spec in generated files, kept apart from those that generated files have anyway.

A name that means something there, or looks like one that is made there, gets ``x_`` before it. So
does one that begins with ``x_``: different names stay different.
"""

from __future__ import annotations

import builtins
import keyword
import re

from schedgen.codegen.library import COMMON
from schedgen.codegen.library_gather import GATHER
from schedgen.codegen.library_ragged import RAGGED
from schedgen.codegen.library_sm90 import LIBRARY as HOPPER
from schedgen.codegen.library_sm100 import LIBRARY as BLACKWELL

_MADE = (
    "a at b bar begin by d event g in its mma most n new of old out phase pitch r s slot t tma x"
)
"""What variables begin with that are made of names of the spec, and ``_``."""
_FIXED = """
    ARGUMENTS BFloat16 CLAIM COVERED CYCLES_PER_ITERATION EVENTS EVENT_ROLES Float16 Float32
    Float8E4M3FN Float8E5M2 Float8E8M0FNU Float4E2M1FN Int32 Uint8
    KERNEL MACHINE OUTPUTS OperandMajorMode PROGRAM_SHA256 ROLES SETTINGS SHARED_BYTES SPEC TARGET
    TENSOR_COLUMNS TFloat32 all_trips band counter cpasync cuda cute cutlass kernel launch
    sm90_utils sms stream tcgen05 tiles triangle trips warpgroup
"""
_ON_DEVICE = """
    barriers column column_0 end first fresh i inside k_step partly piece rest row
    row_0 shared skipped start t thread ticket tile tile_numbers tmem tmem_address turn v warp
    whole_blocks
"""
"""Names in functions that no tensor is known in."""

RESERVED = frozenset(
    {
        *keyword.kwlist,
        *keyword.softkwlist,
        *dir(builtins),
        *_FIXED.split(),
        *re.findall(r"^def (\w+)", COMMON + RAGGED + GATHER + HOPPER + BLACKWELL, re.MULTILINE),
    }
)
_LIKE_MADE = re.compile(rf"(?:{'|'.join(_MADE.split())})_|_")


def plain(name: str) -> str:
    """``EXP[0,1]`` -> ``EXP_0_1``; ``sA full sB full`` -> ``sA_full_sB_full``."""
    text = re.sub(r"\W+", "_", name).strip("_")
    return f"x_{text}" if text[:1].isdigit() else text


def identifier(name: str) -> str:
    """The same, kept apart: ``tile`` -> ``x_tile``."""
    return renamed(plain(name))


def renamed(name: str) -> str:
    """A name of a scalar or extent as it is in generated files; different ones stay so."""
    return f"x_{name}" if is_taken(name) or name in _ON_DEVICE.split() else name


def renamed_tensor(name: str) -> str:
    """The same for a tensor, which only the host has by its name."""
    return f"x_{name}" if is_taken(name) else name


def element_name(tensor: str) -> str:
    """The variable with the element of a tensor that belongs to an output tile."""
    return f"its_{tensor}"


def is_taken(name: str) -> bool:
    """Whether a name means something in generated files, or might."""
    return not name or name in RESERVED or _LIKE_MADE.match(name) is not None


class Names:
    """Distinct identifiers, the same for equal names; none of those that are ``taken``."""

    def __init__(self, taken: set[str]) -> None:
        self._given: dict[tuple[str, str], str] = {}
        self._taken = set(taken)

    def of(self, kind: str, name: str, prefix: str = "", base: str = "") -> str:
        """The identifier of something; ``kind`` keeps an operation apart from a buffer.

        It is made of ``base``, or else of the name.
        """
        if (kind, name) not in self._given:
            base = prefix + plain(base or name) if prefix else identifier(base or name)
            text, number = base, 2
            while text in self._taken:
                text, number = f"{base}_{number}", number + 1
            self._taken.add(text)
            self._given[kind, name] = text
        return self._given[kind, name]
