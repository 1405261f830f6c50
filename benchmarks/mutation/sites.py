"""Programs with one thing changed: the places where, and how to change them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from schedgen.ordering.steps import describe
from schedgen.program.model import Action, Barrier, Program, RoleProgram, Step
from schedgen.program.operations import Allocation

SECTIONS = ("before", "loop", "after")
Steps = tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Site:
    """One step of a program: its role, section and place there."""

    program: Program
    role: RoleProgram
    section: str
    place: int

    @property
    def steps(self) -> Steps:
        """All steps of the section."""
        return section_steps(self.role, self.section)

    @property
    def step(self) -> Step:
        return self.steps[self.place]

    @property
    def action(self) -> Action:
        return self.step.action

    @property
    def name(self) -> str:
        return f"{self.role.name} {self.section} {self.place}: {describe(self.step)}"

    def without(self) -> Program:
        return self.with_steps((*self.steps[: self.place], *self.steps[self.place + 1 :]))

    def instead(self, *steps: Step) -> Program:
        """With other steps at this place."""
        rest = self.steps[self.place + 1 :]
        return self.with_steps((*self.steps[: self.place], *steps, *rest))

    def does(self, action: Action) -> Program:
        """With another action at this place."""
        return self.instead(replace(self.step, action=action))

    def behind(self, other: int) -> Program:
        """With this step right behind the one that stands at ``other`` now, further down."""
        steps = self.steps
        between = steps[self.place + 1 : other + 1]
        return self.with_steps(
            (*steps[: self.place], *between, self.step, *steps[other + 1 :]),
        )

    def ahead_of(self, other: int) -> Program:
        """With this step right before the one that stands at ``other`` now, further up."""
        steps = self.steps
        between = steps[other : self.place]
        return self.with_steps((*steps[:other], self.step, *between, *steps[self.place + 1 :]))

    def with_steps(self, steps: Steps) -> Program:
        """The program with other steps in this section."""
        return with_role(self.program, with_section(self.role, self.section, steps))

    def next(self, wanted: Callable[[Step], bool]) -> int | None:
        """The place of the next such step of the section."""
        later = range(self.place + 1, len(self.steps))
        return next((place for place in later if wanted(self.steps[place])), None)

    def last(self, wanted: Callable[[Step], bool]) -> int | None:
        """The place of the last such step of the section before this one."""
        earlier = range(self.place - 1, -1, -1)
        return next((place for place in earlier if wanted(self.steps[place])), None)


class Change(NamedTuple):
    """A program with one thing changed, in words, and where if it is a step."""

    what: str
    program: Program
    site: Site | None = None


Maker = Callable[[Program], Iterator[Change]]


def with_section(role: RoleProgram, section: str, steps: Steps) -> RoleProgram:
    """The role with other steps in a section."""
    return replace(
        role,
        before=steps if section == "before" else role.before,
        loop=steps if section == "loop" else role.loop,
        after=steps if section == "after" else role.after,
    )


def section_steps(role: RoleProgram, section: str) -> Steps:
    return {"before": role.before, "loop": role.loop, "after": role.after}[section]


def sites(program: Program, *kinds: type[Action]) -> Iterator[Site]:
    """Every step of a program, or those whose actions are of these kinds."""
    for role in program.roles:
        for section in SECTIONS:
            for place, step in enumerate(section_steps(role, section)):
                if not kinds or isinstance(step.action, kinds):
                    yield Site(program, role, section, place)


def with_role(program: Program, role: RoleProgram) -> Program:
    """The program with another role of this name."""
    roles = tuple(role if other.name == role.name else other for other in program.roles)
    return replace(program, roles=roles)


def with_barrier(program: Program, barrier: Barrier) -> Program:
    """The program with another barrier of this name."""
    barriers = tuple(barrier if old.name == barrier.name else old for old in program.barriers)
    return replace(program, barriers=barriers)


def with_allocation(program: Program, allocation: Allocation) -> Program:
    """The program with another allocation of this name."""
    allocations = tuple(
        allocation if old.name == allocation.name else old for old in program.allocations
    )
    return replace(program, allocations=allocations)
