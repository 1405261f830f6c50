"""One Muon step of matrices that lie on several ranks.

Each rank orthogonalizes some of them. Parts of a matrix travel to its owner and parts of the
result travel back, so that each part is sent once each way. While a rank computes one round, the
parts of the next arrive and the results of the one before leave.

All that may fail on one rank alone comes before a report (`Ranks.report`), and after the report
nothing but the exchange itself; so no rank enters an exchange that another one will not enter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any
from zlib import crc32

import torch
from torch import Tensor

from schedgen.kernels.errors import ArgumentValueError
from schedgen.kernels.newton_schulz.sharded_groups import Matrix, Rule
from schedgen.kernels.newton_schulz.sharded_plan import Job, Round, rounds
from schedgen.kernels.newton_schulz.sharded_ranks import RankError, Ranks
from schedgen.kernels.newton_schulz.sharded_transfer import Transfer

_lists: Any = torch


class Step:
    """One step of all matrices that the same ranks share."""

    def __init__(
        self,
        ranks: Ranks,
        matrices: Sequence[Matrix],
        device: torch.device,
        travelling: Callable[[torch.dtype], torch.dtype],
    ) -> None:
        """Nothing happens yet.

        Args:
            ranks: that share the matrices.
            matrices: the same, in the same order, on all ranks.
            device: on which this rank computes, and from which it sends.
            travelling: type in which parts of a type go to the owner.
        """
        self._ranks, self._matrices, self._device = ranks, matrices, device
        self._travelling = travelling
        self._gradients: dict[int, Tensor] = {}
        self._targets: dict[int, Tensor] = {}
        described = "\n".join(f"{m.layout.shape} {m.layout.copies} {m.kind}" for m in matrices)
        self._print = crc32(described.encode()).to_bytes(4, "big")

    @torch.no_grad()
    def run(self, failure: Exception | None = None) -> None:
        """The step.

        Args:
            failure: what has gone wrong on this rank before.

        Raises:
            Exception: what went wrong on this rank.
            RankError: something went wrong on another one.
        """
        active = [m.param.grad is not None for m in self._matrices]
        while True:
            # A guess that all ranks have the same gradients; they mostly do.
            stages, transfers = self._stages(active), list[Transfer]()
            if failure is None:
                transfers, failure = _advanced([], stages)
            notes = self._ranks.report(failure, self._print + bytes(active))
            active = self._wanted(notes)
            if len(set(notes)) == 1:
                break  # on all ranks, for all see the same notes
        while transfers is not None:
            transfers, failure = _advanced(transfers, stages)
            self._ranks.report(failure)

    def _wanted(self, notes: list[bytes]) -> list[bool]:
        """Which matrices any rank has a gradient of, according to all of them."""
        if any(note[:4] != self._print for note in notes):
            raise RankError(
                f"ranks {list(self._ranks.members)} have different matrices, or in another order; "
                "fix: give the same parameters and options to Muon on all ranks"
            )
        each = [list(map(bool, note[4:])) for note in notes]
        if len(set(notes)) == 1:
            return each[0]
        for n, m in enumerate(self._matrices):
            having: dict[object, set[bool]] = {}
            for box, has in zip(m.layout.boxes, (flags[n] for flags in each), strict=True):
                if not box.empty:
                    having.setdefault(box, set()).add(has)
            if any(len(found) > 1 for found in having.values()):
                got = f"matrix {n}, {m.layout.shape}, has a gradient on some of its replicas only"
                fix = "reduce gradients over all ranks, as DDP does"
                raise ArgumentValueError("params", got, "the same gradient on all replicas", fix)
        return [any(column) for column in zip(*each, strict=True)]

    # -- what one rank does, between reports ------------------------------------------------------

    def _stages(self, active: list[bool]) -> Iterator[list[Transfer]]:
        """Yields transfers that are ready to start. A transfer starts before the next stage."""
        self._advance(active)
        plan = rounds(
            tuple(
                Job(n, m.layout.shape, m.kind) for n, m in enumerate(self._matrices) if active[n]
            ),
            len(self._ranks),
        )
        gathers = dict(enumerate(map(self._gather, plan[:2])))
        yield list(gathers.values())
        before: tuple[Round, dict[int, Tensor], Transfer] | None = None
        for n, now in enumerate(plan):
            results = self._results(now, gathers.pop(n))
            scatter = self._scatter(now, results)
            starting = [scatter]
            if n + 2 < len(plan):
                gathers[n + 2] = self._gather(plan[n + 2])
                starting.append(gathers[n + 2])
            yield starting
            if before is not None:
                self._finish(*before)
            before = now, results, scatter
        if before is not None:
            self._finish(*before)

    def _advance(self, active: list[bool]) -> None:
        """Momentum, once per step."""
        new = [n for n, wanted in enumerate(active) if wanted and n not in self._gradients]
        for numbers in self._alike(new):
            some = [self._matrices[n] for n in numbers]
            gradients = [m.gradient() for m in some]
            some[0].rule.advance([m.param for m in some], gradients)
            self._gradients.update(zip(numbers, gradients, strict=True))

    def _aim(self, now: Round) -> None:
        """What this rank has of what the owners of a round orthogonalize."""
        needed = [
            job.number
            for owner, jobs in enumerate(now)
            for job in jobs
            if self._ranks.me == owner
            or self._matrices[job.number].layout.sends(self._ranks.me, owner)
        ]
        for numbers in self._alike(needed):
            some = [self._matrices[n] for n in numbers]
            gradients = [self._gradients[n] for n in numbers]
            found = some[0].rule.targets([m.param for m in some], gradients)
            self._targets.update(zip(numbers, found, strict=True))

    def _alike(self, numbers: list[int]) -> Iterator[list[int]]:
        """Those that one call can take together."""
        groups: dict[tuple[Rule, torch.dtype, torch.device], list[int]] = {}
        for n in numbers:
            m = self._matrices[n]
            groups.setdefault((m.rule, m.part.dtype, m.part.device), []).append(n)
        yield from groups.values()

    def _gather(self, now: Round) -> Transfer:
        """Parts on their way to the owners."""
        self._aim(now)
        transfer, me = Transfer(self._ranks, self._device), self._ranks.me
        for owner, jobs in enumerate(now):
            for job in jobs:
                m = self._matrices[job.number]
                dtype, senders = self._travelling(m.part.dtype), m.layout.senders(owner)
                transfer.needed |= bool(senders)
                if m.layout.sends(me, owner):
                    transfer.send(owner, self._targets.pop(job.number), dtype)
                for sender in senders if owner == me else ():
                    box = m.layout.boxes[sender]
                    transfer.expect(sender, job.number, (box.height, box.width), dtype)
        transfer.pack()
        return transfer

    def _results(self, now: Round, gather: Transfer) -> dict[int, Tensor]:
        """Updates of the matrices that this rank owns, whole."""
        gather.wait()
        found: dict[int, Tensor] = {}
        for jobs in _runs(now[self._ranks.me]):
            first = self._matrices[jobs[0].number]
            whole = torch.empty(
                len(jobs), *first.layout.shape, dtype=first.part.dtype, device=self._device
            )
            places, parts = list[Tensor](), list[Tensor]()
            for x, job in zip(whole, jobs, strict=True):
                boxes = self._matrices[job.number].layout.boxes
                for sender, part in gather.arrived(job.number):
                    places.append(boxes[sender].of(x))
                    parts.append(part)
                if not boxes[self._ranks.me].empty:
                    places.append(boxes[self._ranks.me].of(x))
                    parts.append(self._targets.pop(job.number))
            _lists._foreach_copy_(places, parts)
            # All ranks apply what has been rounded to the type of the journey, the owner too.
            updates = first.rule.orthogonalized(whole).to(first.back)
            found.update((job.number, u) for job, u in zip(jobs, updates, strict=True))
        return found

    def _scatter(self, now: Round, results: dict[int, Tensor]) -> Transfer:
        """Parts of the results on their way to where the parameters are."""
        transfer, me = Transfer(self._ranks, self._device), self._ranks.me
        for owner, jobs in enumerate(now):
            for job in jobs:
                m = self._matrices[job.number]
                receivers, mine = m.layout.receivers(owner), m.layout.boxes[me]
                transfer.needed |= bool(receivers)
                if owner != me and not mine.empty:
                    transfer.expect(owner, job.number, (mine.height, mine.width), m.back)
                for receiver in receivers if owner == me else ():
                    box = m.layout.boxes[receiver]
                    transfer.send(receiver, box.of(results[job.number]), m.back)
        transfer.pack()
        return transfer

    def _finish(self, now: Round, results: dict[int, Tensor], scatter: Transfer) -> None:
        """Applies the updates of a round to the local parts."""
        scatter.wait()
        me = self._ranks.me
        groups: dict[tuple[Rule, tuple[int, int], torch.dtype], list[tuple[Tensor, Tensor]]] = {}
        for job in (job for jobs in now for job in jobs):
            m = self._matrices[job.number]
            if m.layout.boxes[me].empty:
                continue
            if job.number in results:
                update = m.layout.boxes[me].of(results[job.number])
            else:
                ((_, update),) = scatter.arrived(job.number)
            key = m.rule, m.layout.shape, m.part.dtype
            groups.setdefault(key, []).append((m.part, update.to(m.part)))
        for (rule, shape, _), pairs in groups.items():
            rule.applied([part for part, _ in pairs], [update for _, update in pairs], shape)


def _advanced(
    transfers: list[Transfer], stages: Iterator[list[Transfer]]
) -> tuple[list[Transfer] | None, Exception | None]:
    """Starts ``transfers``; those of the next stage, None after the last; or what failed."""
    try:
        for transfer in transfers:
            transfer.start()
        return next(stages, None), None
    except Exception as failure:
        return None, failure


def _runs(jobs: Sequence[Job]) -> Iterator[list[Job]]:
    """Jobs of one shape and kind, which come one after the other."""
    found: dict[tuple[tuple[int, int], str], list[Job]] = {}
    for job in jobs:
        found.setdefault((job.shape, job.kind), []).append(job)
    yield from found.values()
