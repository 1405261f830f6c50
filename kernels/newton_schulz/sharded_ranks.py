"""A group of ranks: exchanges of data, and reports that turn one rank's failure into everyone's.

Reports travel on the host, through gloo, whatever the data goes through: they neither wait for a
GPU nor hang on a rank that is gone, and they have a timeout of their own.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from schedgen.kernels.errors import KernelError

_untyped: Any = dist
_PADDED = 512
"""Bytes. Ranks that disagree about their parameters can still read each other's reports."""


class RankError(KernelError, RuntimeError):
    """Another rank failed, died, did not come in time, or has other parameters."""


class Ranks:
    """The ranks of a group, which share the work of a step.

    Attributes:
        members: global ranks in the group's order.
        me: this one's place among them.
        sent: bytes that this rank has sent to others in all, reports aside.
    """

    def __init__(
        self, members: tuple[int, ...], group: dist.ProcessGroup | None, timeout: float
    ) -> None:
        """Members have to do this together.

        Args:
            members: as above.
            group: for the data; None for a new one.
            timeout: of reports, in seconds.
        """
        self.members, self.me, self.sent = members, members.index(dist.get_rank()), 0
        self._timeout = timeout
        if len(members) == 1:
            return
        alone: dict[str, Any] = {"use_local_synchronization": True}
        if group is None and len(members) == dist.get_world_size():
            group = dist.group.WORLD
        self._group: Any = group or dist.new_group(list(members), **alone)
        limit = timedelta(seconds=timeout)
        self._reports: Any = dist.new_group(list(members), limit, "gloo", **alone)

    def __len__(self) -> int:
        return len(self.members)

    def report(self, failure: Exception | None, note: bytes = b"") -> list[bytes]:
        """Waits for the reports of all ranks and returns their notes.

        Raises:
            Exception: ``failure`` itself, once the others know of it.
            RankError: another rank reports a failure, or nothing.
        """
        if len(self) == 1:
            if failure is not None:
                raise failure
            return [note]
        length = -(-(1 + len(note)) // _PADDED) * _PADDED
        mine = bytes([failure is not None]) + note.ljust(length - 1, b"\0")
        try:
            found = self._gathered(torch.frombuffer(bytearray(mine), dtype=torch.uint8))
            if not any(report[0] for report in found):
                return [report[1 : 1 + len(note)] for report in found]
            texts: list[Any] = [None] * len(self)
            said = None if failure is None else f"{type(failure).__name__}: {failure}"
            dist.all_gather_object(texts, said, group=self._reports)
        except RuntimeError as reason:
            if failure is not None:
                raise failure from reason
            raise RankError(
                f"a rank among {list(self.members)} did not report within {self._timeout:g} s, or "
                f"is gone: {reason}; fix: see what it printed, then continue from a checkpoint"
            ) from reason
        if failure is not None:
            raise failure
        failed = [f"rank {r}: {t}" for r, t in zip(self.members, texts, strict=True) if t]
        raise RankError(
            f"this step of Muon failed elsewhere, {'; '.join(failed)}; "
            "fix: that, then continue from a checkpoint"
        )

    def _gathered(self, report: Tensor) -> list[bytes]:
        found = [torch.empty_like(report) for _ in self.members]
        dist.all_gather(found, report, group=self._reports)
        lists: list[Any] = [each.tolist() for each in found]
        return [bytes(each) for each in lists]

    def exchange(self, out: Tensor, into: Tensor, sizes: tuple[list[int], list[int]]) -> Any:
        """Starts to send ``out`` and to fill ``into``: bytes of each rank, in order; a work."""
        self.sent += out.numel()
        sending, coming = sizes
        return _untyped.all_to_all_single(into, out, coming, sending, self._group, async_op=True)
