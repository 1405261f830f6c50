"""What completes the phases that the waits of a kernel wait for."""

from __future__ import annotations

from typing import Any

from schedgen.emulator.awaited import Completing
from schedgen.emulator.emulation import Emulator


class Watching(Emulator):
    """Runs launches of a kernel without faults, with ``completing`` as its race checker."""

    completing: Completing

    def _new_checker(self, *arguments: Any, **options: Any) -> Completing:
        self.completing = Completing(*arguments, **options)
        return self.completing
