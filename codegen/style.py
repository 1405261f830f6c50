"""How a program is written where it leaves that open, for what the assembler makes of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, fields, replace

from schedgen.codegen.errors import EmitError


@dataclass(frozen=True, slots=True)
class Style:
    """A way to write a program; the plain one where nothing is said.

    Attributes:
        blocks: in turns of a loop, what threads compute behind a product of Hopper begins a basic
            block of its own. In one block the assembler issues the instructions of the product
            between others as it sees fit, so that its last ones come late.
        shared: equal roles of neighbouring warpgroups are one branch of the kernel, so that their
            warps execute the same instructions, see `schedgen.codegen.sharing`.
        peeled: turns in which masks keep everything are a loop of their own, without the code of
            masks, see `schedgen.codegen.peeling`; otherwise each turn asks.
        prompt: waits give no hint of how long they may take. With one the assembler asks a barrier
            twice, also if its phase is complete. `schedgen emit` goes by what machine code takes.
        straight: threads of Hopper move tiles of 32 bits in the order of their registers. That has
            bank conflicts, and otherwise (`load_pairs` of `schedgen.codegen.library_sm90`) there
            are selections. Which is faster only a GPU tells.
        loose: what threads of Hopper compute before a wait for a product need not be over then: the
            assembler may mix it with what they compute behind it, such as exponentials with the
            gradients of scores, so that units are used more evenly. Or it leaves nothing that is
            done while the product is under way. Which is faster only a GPU tells.
        late: what threads compute from their numbers outside of the main loop, such as addresses,
            takes no registers in it: it is computed where it is needed.
        threes: threads of Hopper compare three numbers at a time for maxima of rows, as integers,
            which have the same order unless they are negative. Where one comes out negative they
            are compared again, two at a time. Which is faster only a GPU tells.
        seldom: what threads of Hopper find for their rows and is mostly a number, or what it was,
            such as the factor of sums behind a new maximum, is computed where that is not so for
            one of a warp's. Which is faster only a GPU tells.
        o1: the assembler works at its first level (``ptxas -O1``), which leaves instructions more
            in the order in which they are written. The text is the same. Which is faster only a GPU
            tells.
    """

    blocks: bool = False
    shared: bool = False
    peeled: bool = False
    prompt: bool = False
    straight: bool = False
    loose: bool = False
    late: bool = False
    threes: bool = False
    seldom: bool = False
    o1: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """What differs from the plain one, as files and locks say it."""
        return tuple(field.name for field in fields(self) if getattr(self, field.name))

    @staticmethod
    def of(words: Iterable[str]) -> Style:
        """The opposite of `words`. Raises EmitError for a word that is none."""
        known = {field.name for field in fields(Style)}
        given = tuple(words)
        for word in given:
            if word not in known:
                raise EmitError(
                    f"'{word}' is no way to write a program; there is {', '.join(sorted(known))}"
                )
        return Style(**dict.fromkeys(given, True))


PLAIN = Style()
_ASSEMBLER = {"o1": "-O1"}
"""What words say to the assembler, not to who writes the text."""


BLOCK = "begin_block"
"""The function of the library that begins a block."""
INSTANCE = "instance_of"
"""The function of the library that says which of several equal roles a warp has."""
WAIT = "wait"
"""The function of the library that waits without a hint."""
ANEW = "anew"
"""The function of the library for numbers of which nothing is known before."""
STRAIGHT_LOAD, STRAIGHT_STORE = "load_straight", "store_straight"
"""The functions of the library that move tiles of 32 bits in the order of registers."""
QUICK_MAX = "row_max_of_threes"
"""The function of the library that compares three numbers at a time."""
SELDOM = "any_of_warp"
"""The function of the library that asks whether something has to be computed."""
IN_TURNS = "in_turns"
"""The function of the library for where loops of some turns begin and end."""


def compile_options(words: Iterable[str]) -> str:
    """What ``cute.compile`` has to know of a file that is written in this way (`Style.words`)."""
    told = " ".join(_ASSEMBLER[word] for word in words if word in _ASSEMBLER)
    return f"--ptxas-options '{told}'" if told else ""


def asked(words: Iterable[str]) -> Style | None:
    """The way of ``words``, None if there are none; "plain" alone is the plain one.

    Raises EmitError for a word that is none.
    """
    given = tuple(words)
    if given == ("plain",):
        return PLAIN
    return Style.of(given) if given else None


def seen(style: Style, used: Collection[str], *, loosened: bool = False) -> Style:
    """What of ``style`` a text shows that uses these functions of the library: where nothing is
    computed behind products, no roles are equal, or nobody knows what masks keep, it is plain.
    ``loosened``: a wait for a product would have been held back otherwise.
    """
    return replace(
        style,
        blocks=style.blocks and BLOCK in used,
        shared=style.shared and INSTANCE in used,
        peeled=style.peeled and IN_TURNS in used,
        prompt=style.prompt and WAIT in used,
        straight=style.straight and not {STRAIGHT_LOAD, STRAIGHT_STORE}.isdisjoint(used),
        loose=style.loose and loosened,
        late=style.late and ANEW in used,
        threes=style.threes and QUICK_MAX in used,
        seldom=style.seldom and SELDOM in used,
    )
