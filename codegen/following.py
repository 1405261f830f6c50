"""How output tiles count themselves, or wait for those of another kernel
(`schedgen.program.following`).
"""

from __future__ import annotations

from schedgen.codegen.formulas import whole
from schedgen.codegen.ir import Code, Name, called, code, joined
from schedgen.codegen.plan import Plan
from schedgen.codegen.source import Source
from schedgen.following import words_of
from schedgen.program.following import AWAIT


class Following:
    """That of a kernel."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.words = plan, words_of(plan.kernel)

    def tensors(self) -> dict[str, str]:
        """The parameter of the kernel with the words, and its argument, if there are any."""
        return {} if self.words is None else {f"of_{self.words.name}": self.words.name}

    def write(self, source: Source, operation: str) -> None:
        """What a role does about the word of its output tile."""
        assert self.words is not None
        words = Name(f"of_{self.words.name}")
        at = joined(", ", (Name(f"at_{extent}") for extent in self.words.shape))
        if operation != AWAIT:
            source.add(called("count_tile", words, code("({},)", at)))
            return
        source.add(called("await_tiles", words, code("({},)", at), self._awaited()))

    def _awaited(self) -> Code:
        """How many tiles the word has to count."""
        assert self.plan.kernel.follows is not None
        return code("{}", whole(self.plan.kernel.follows[1], extremes=True))
