"""Integers of generated code that may depend on counters of unrolled loops, and on instances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Affine:
    """``constant`` and multiples of variables: name and factor of each, in the order in which they
    were added.
    """

    constant: int
    terms: tuple[tuple[str, int], ...] = ()

    def along(self, variable: str, step: int, origin: int = 0) -> Affine:
        """The same, ``step`` more each time ``variable`` grows by one from ``origin`` on."""
        if not step:
            return self
        return Affine(self.constant - step * origin, (*self.terms, (variable, step)))

    @property
    def text(self) -> str:
        """``4 * i + j + 1``, ``2 - i``."""
        added = [_times(name, factor) for name, factor in self.terms if factor > 0]
        if self.constant > 0:
            added.append(str(self.constant))
        taken = [_times(name, -factor) for name, factor in self.terms if factor < 0]
        if self.constant < 0:
            taken.insert(0, str(-self.constant))
        if not added and taken == [str(-self.constant)]:
            return str(self.constant)
        return " - ".join([" + ".join(added) or "0", *taken])

    @property
    def parts(self) -> int:
        """Of how many summands that text consists."""
        return len(self.terms) + bool(self.constant or not self.terms)


@dataclass(frozen=True, slots=True)
class Number:
    """An integer in code.

    Attributes:
        summand: it is added to what stands before it, and not written if it is 0.
        modulus: multiples of it make no difference; 0 if all do.
    """

    value: Affine
    summand: bool = False
    modulus: int = 0

    def written(self, before: str, after: str) -> str:
        """Its text between two others.

        What consists of several parts is in parentheses where it is an operand, so that Python
        computes it before anything that only the GPU knows.
        """
        text = self.value.text
        if self.summand:
            return self._added(text)
        alone = self.value.parts == 1 and " " not in text
        opens = not before.rstrip() or before.rstrip()[-1] in "([,="
        closes = not after.strip() or after.lstrip()[0] in ")],:"
        return text if alone or (opens and closes) else f"({text})"

    def _added(self, text: str) -> str:
        if text == "0":
            return ""
        if not self.value.terms:
            return f" - {text[1:]}" if text.startswith("-") else f" + {text}"
        single = self.value.parts == 1 and self.value.terms[0][1] > 0
        return f" + {text}" if single else f" + ({text})"


def progression(numbers: Sequence[Number]) -> int | None:
    """By how much each is more than the one before; None if they are no arithmetic progression."""
    first = numbers[0]
    step = numbers[1].value.constant - first.value.constant if len(numbers) > 1 else 0
    step = step % first.modulus if first.modulus and step < 0 else step
    together = all(follows(first, step, place, number) for place, number in enumerate(numbers))
    return step if together else None


def follows(first: Number, step: int, place: int, number: Number) -> bool:
    """Whether a number may stand ``place`` steps behind the first one."""
    beyond = number.value.constant - first.value.constant - place * step
    beyond = beyond % first.modulus if first.modulus else beyond
    return number.value.terms == first.value.terms and not beyond


def _times(name: str, factor: int) -> str:
    return name if factor == 1 else f"{factor} * {name}"
