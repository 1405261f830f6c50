"""What is wrong with an expression of a variant."""

from __future__ import annotations

from schedgen.expressions import ExpressionError
from schedgen.kernels.errors import KernelError


class VariantError(KernelError, ValueError):
    """An expression that attention cannot be computed with.

    Attributes:
        argument: ``mask`` or ``score``.
        text: the expression.
        column: where in it the mistake stands, from 1.
        rule: stable kebab-case code.
        fix: what to write instead.
    """

    def __init__(self, argument: str, text: str, rule: str, mistake: ExpressionError) -> None:
        super().__init__(argument, text, rule, mistake)
        self.argument, self.text, self.rule = argument, text, rule
        self.message, self.fix = mistake.message, mistake.fix
        self.column, self._length = mistake.offset + 1, max(mistake.length, 1)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self.args

    def __str__(self) -> str:
        before = self.text[: self.column - 1]
        line = before.count("\n")
        shown = self.text.split("\n")[line]
        start = len(before) - (before.rfind("\n") + 1)
        marks = "^" * max(1, min(self._length, len(shown) - start))
        text = (
            f"{self.argument}, column {self.column}: error[{self.rule}]: {self.message}\n"
            f"  {shown}\n  {' ' * start}{marks}"
        )
        return f"{text}\n  fix: {self.fix}" if self.fix else text
