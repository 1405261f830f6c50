"""What the emitter cannot do, and where in the spec the cause stands."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from schedgen.errors import Diagnostic, SchedgenError

if TYPE_CHECKING:
    from schedgen.kernel import Kernel, Operation, Region


class EmitError(SchedgenError):
    """A program that no emitter knows how to write for its architecture.

    Attributes:
        subject: "operations" or "buffers", and the name there of what cannot be emitted; None if it
            is neither, or not known where the error is raised.
        rule: stable kebab-case code.
        fix: what to do about it.
    """

    status = 1

    def __init__(
        self,
        message: str,
        subject: Operation | Region | None = None,
        *,
        rule: str = "no-emitter",
        fix: str | None = None,
    ) -> None:
        super().__init__(message)
        self.subject = _subject(subject)
        self.rule, self.fix = rule, fix

    def located(self, kernel: Kernel) -> EmitError:
        """The same with the place of its subject in the spec's file as its text."""
        at = None if self.subject is None else kernel.locations.get(self.subject)
        diagnostic = Diagnostic(self.rule, str(self), kernel.spec_file, at, fix=self.fix)
        found = EmitError(diagnostic.render(), rule=self.rule, fix=self.fix)
        found.subject = self.subject
        return found


class EmitErrors(EmitError):
    """Several of them, which a stage has found together."""

    def __init__(self, errors: Sequence[EmitError]) -> None:
        super().__init__("\n".join(map(str, errors)))
        self.all = tuple(errors)


def _subject(subject: Operation | Region | None) -> tuple[str, str] | None:
    from schedgen.kernel import Region

    if subject is None:
        return None
    return "buffers" if isinstance(subject, Region) else "operations", subject.base


@contextmanager
def about(operation: Operation) -> Generator[None]:
    """Errors inside of it are about ``operation``, if they are not about something else."""
    try:
        yield
    except EmitError as error:
        error.subject = error.subject or _subject(operation)
        raise
