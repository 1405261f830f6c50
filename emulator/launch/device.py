"""`device`: inside of it, compiled CuTe DSL functions launch on the emulator."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from tempfile import TemporaryDirectory
from typing import Any

from schedgen.emulator.launch.arguments import Named, allocations, disjoint, storage
from schedgen.emulator.launch.capture import Allocation, Launch
from schedgen.emulator.launch.diversion import (
    answer_hardware,
    compile_for,
    divert_calls,
    place_in_global_memory,
)
from schedgen.emulator.launch.diversion_ffi import divert_ffi
from schedgen.emulator.launch.diversion_objects import divert_objects
from schedgen.emulator.launch.diversion_triton import divert_triton
from schedgen.emulator.launch.driver import Driver
from schedgen.emulator.launch.dsl import Dsl, load
from schedgen.emulator.launch.errors import LaunchError
from schedgen.emulator.launch.host_code import HostCode
from schedgen.emulator.launch.stacks import note_stacks
from schedgen.emulator.launch.targets import Target, target

_in_use = threading.Lock()  # classes of the DSL are diverted, and there is only one of each


class Device:
    """A GPU that is not there; `device` makes one.

    Attributes:
        target: what it is.
    """

    def __init__(
        self,
        dsl: Dsl,
        gpu: Target,
        run: Callable[[Launch], None],
        memory: Callable[[], tuple[Allocation, ...]] | None = None,
    ) -> None:
        self.target = gpu
        self._dsl = dsl
        self._run = run
        self._global_memory = memory
        # Functions and tensors are kept with what is known of them: an id or an address would
        # otherwise be given to something else.
        self._host_codes: dict[int, tuple[Any, HostCode]] = {}
        self._registered: list[tuple[Any, Allocation]] = []
        self._arguments: list[tuple[str, Any]] = []
        self._memory: tuple[Allocation, ...] = ()

    def register(self, tensor: Any, name: str = "registered tensor") -> None:
        """Let kernels access the whole storage of a torch tensor or numpy array.

        Arguments of calls need not be registered, except views of whose storage the kernel uses
        more, pointers into memory that belongs to no torch tensor, and what is reached through
        integers or through pointers that lie in memory.

        Raises:
            LaunchError: it is something else, or not in CPU memory.
        """
        self._registered.append((tensor, storage(tensor, name)))

    def note_arguments(self, arguments: Iterable[tuple[str, Any]]) -> None:
        """Remember names and values of what the next call passes."""
        self._arguments = list(arguments)

    def call(self, function: Any, arguments: list[Any]) -> int | None:
        """Run the host code of `function`; `arguments` are as the DSL packs them."""
        code = self._host_code(function)
        given, self._arguments = self._arguments, []
        with self._accessible(given):
            return code.run(arguments)

    def ffi(self, function: Any) -> Any:
        """Return `function` as one of apache-tvm-ffi whose launches come here."""
        return self._host_code(function).ffi()

    def call_ffi(self, function: Any, arguments: Named, call: Callable[[], Any]) -> Any:
        """Return the result of `call`, which calls what `ffi` returned for `function`."""
        with self._accessible(arguments):
            return self._host_code(function).guarded(call)

    def launch(self, launch: Launch, arguments: Named) -> None:
        """Execute a launch, but for its memory, of a kernel that is called with `arguments`."""
        with self._accessible(arguments):
            self._launched(launch)

    def _host_code(self, function: Any) -> HostCode:
        known = self._host_codes.get(id(function))
        if known is None:
            driver = Driver(self.target, lambda: _ptx(function), self._launched)
            known = (function, HostCode(self._dsl, function, driver))
            self._host_codes[id(function)] = known
        return known[1]

    @contextmanager
    def _accessible(self, arguments: Named) -> Generator[None]:
        """Let launches access the memory of the arguments of a call, and what is registered."""
        outer = self._memory  # of a call whose launch is being handled
        registered = [one for _, one in self._registered]
        if self._global_memory is None:
            self._memory = disjoint([*allocations(self._dsl, arguments), *registered])
        else:
            self._memory = disjoint([*self._global_memory(), *registered])
        try:
            yield
        finally:
            self._memory = outer

    def _launched(self, launch: Launch) -> None:
        captured = replace(launch, allocations=self._memory)
        captured.check()
        self._run(captured)


@contextmanager
def device(
    name: str = "sm_100a",
    *,
    run: Callable[[Launch], None],
    sms: int = 4,
    lines: bool = True,
    memory: Callable[[], tuple[Allocation, ...]] | None = None,
) -> Generator[Device]:
    """Launch what compiled functions launch by `run`, as long as the context lasts.

    Functions may be compiled before or inside. If before, CUTE_DSL_KEEP=ptx must have been set
    when cutlass was imported, because the DSL otherwise throws PTX away. Inside, the DSL compiles
    for the target and looks for no GPU, and the PTX is the same as for tensors on a GPU.
    Afterwards all is as it was.

    Args:
        name: ``sm_90a`` or ``sm_100a``.
        run: handles one launch; host code waits for it. What it raises comes out of the call of
            the compiled function, and further launches of that call do not happen.
        sms: streaming multiprocessors that host code is told of. Persistent kernels launch as many
            CTAs; with few of them each works on several tiles, as in a large problem.
        lines: compile with line numbers, so that PTX can be traced back to Python.
        memory: gives all that kernels may access, whatever the arguments of a call are; by default
            that is the memory of the arguments. With it tensors may claim to be on a GPU.

    Raises:
        LaunchError: there is no such target, or another device is in use.
    """
    gpu = target(name, sms)
    dsl = load()
    if not _in_use.acquire(blocking=False):
        raise LaunchError("a device is in use already; leave its context before the next one")
    with ExitStack() as stack:
        stack.callback(_in_use.release)
        folder = stack.enter_context(TemporaryDirectory(prefix="schedgen-ptx-"))
        opened = Device(dsl, gpu, run, memory)
        compile_for(stack, dsl, gpu, folder, lines=lines)
        if lines:
            note_stacks(stack, dsl)
        place_in_global_memory(stack, dsl)
        divert_calls(stack, dsl, opened)
        divert_ffi(stack, opened)
        divert_objects(stack, dsl, opened)
        divert_triton(stack, gpu, opened, f"{folder}/triton")
        answer_hardware(stack, dsl, gpu)
        yield opened


def _ptx(function: Any) -> str:
    text: str | None = function.__ptx__
    if text is None and function.has_gpu_module:
        raise LaunchError(
            f"the PTX of {function.function_name} was not kept when it was compiled; compile it "
            "inside of device(...), or set CUTE_DSL_KEEP=ptx before cutlass is imported"
        )
    return text or ""
