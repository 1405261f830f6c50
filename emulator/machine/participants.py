"""What barriers and pools of a CTA know of the warps that come to them."""

from __future__ import annotations

from typing import Protocol


class Participant(Protocol):
    """A warp; a `warp.Warp`. ``number`` is unique in the launch, ``rank`` in the CTA."""

    rank: int
    number: int
    finished: bool

    @property
    def title(self) -> str:
        """How messages name it."""
        ...
