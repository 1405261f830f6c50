"""The clocks of SMs while another kernel runs.

On an H200 the SMs of one GPC share a clock, and it drops from 1980 to 1800 MHz as soon as one of
them multiplies matrices, while the other GPCs go on at 1980 and NVML says 1980: only a count of
cycles that goes on meanwhile, on the SM in question, tells what a kernel runs at.
"""

from __future__ import annotations

from typing import Any

import torch

from schedgen.kernels.launcher import multiprocessors

_SOURCE = """
extern "C" __global__ void count_clock(long long* counted, long long nanoseconds) {
    if (threadIdx.x) return;
    long long begin, end, last, first_cycle;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(last));
    do {
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
    } while (begin == last);  // the timer has just ticked
    first_cycle = clock64();
    do {
        __nanosleep(20000);
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(last));
    } while (last - begin < nanoseconds);
    do {
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(end));
    } while (end == last);
    counted[2 * blockIdx.x] = end - begin;
    counted[2 * blockIdx.x + 1] = clock64() - first_cycle;
}
"""


class Clocks:
    """Counts cycles on all SMs, by one thread of each, which sleeps most of the time.

    It has to be launched when the kernel in question already runs: an SM changes how much of its
    memory is shared memory only when it does nothing, so that a kernel that wants more would wait.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._blocks = multiprocessors(device)
        self._kernel: Any = torch.cuda._compile_kernel(_SOURCE, "count_clock")  # pyright: ignore
        self._stream = torch.cuda.Stream(device)
        self._counted = torch.zeros(2 * self._blocks, dtype=torch.int64, device=device)
        self._counting = self._blocks

    @property
    def sms(self) -> int:
        """SMs of the GPU."""
        return self._blocks

    def count(
        self, milliseconds: float, blocks: int | None = None, after: torch.cuda.Event | None = None
    ) -> None:
        """Begins to count, beside what was launched before, or as soon as ``after`` has happened;
        on so many SMs that are free, ``blocks``, where those that work have no room.
        """
        self._counting = self._blocks if blocks is None else blocks
        if after is not None:
            self._stream.wait_event(after)
        with torch.cuda.stream(self._stream):
            arguments = (self._counted, int(milliseconds * 1e6))
            self._kernel((self._counting, 1, 1), (32, 1, 1), arguments)

    def lowest(self) -> float:
        """The lowest clock of an SM that counted, in MHz, after all that was launched is over."""
        nanoseconds, cycles = self._counted.view(-1, 2)[: self._counting].T.double()
        return float((cycles / nanoseconds).min()) * 1e3
