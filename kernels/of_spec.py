"""From a spec to a function of torch tensors."""

from __future__ import annotations

import logging
import shlex
import threading
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from schedgen.codegen.facts import Parameter, read_facts
from schedgen.driver import lock_file
from schedgen.kernels import cache, following, layouts, library, operators, plans, styles, turns
from schedgen.kernels.errors import ArgumentTypeError, ArgumentValueError, DeviceError
from schedgen.kernels.launcher import DTYPES, architecture
from schedgen.kernels.of_file import GeneratedKernel
from schedgen.kernels.operators import Operator
from schedgen.stored import Store

if TYPE_CHECKING:
    from schedgen.machine import Machine
    from schedgen.spec.reader import Spec

log = logging.getLogger("schedgen.kernels")

Settings = Mapping[str, Any]
_SHOWN = 16
_TYPES = {bool: "a bool", int: "an int", float: "a float", str: "a str"}


class SpecKernel:
    """A spec's kernel as a function of tensors; `schedgen.kernels.kernel` makes one.

    It takes the tensors that the kernel reads and its numbers, by position in the order of
    ``inputs`` or by name, and returns what it stores, in the order of ``outputs``: one tensor, or a
    tuple; what it adds to begins with zeros. Layouts that bulk copies cannot read are copied first.
    It is an operator of torch with a fake implementation, so torch.compile takes it.

    Attributes:
        path: the generated file.
        facts: what the file says about itself.
        inputs: arguments, tensors first.
        outputs: results.
        free: extents that only results have, which have to be given by name as well.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.facts = path, read_facts(path)
        written = set(self.facts.outputs)
        made = written | {name for name, *_ in self.facts.turns}
        made |= {self.facts.tells[0]} if self.facts.tells is not None else set()
        self.inputs = tuple(p for p in self.facts.parameters if p.name not in made)
        self.outputs = tuple(p for p in self.facts.parameters if p.name in written)
        self.free = _free(self.inputs, self.outputs)
        self._names = [*(parameter.name for parameter in self.inputs), *self.free]
        self._launch = GeneratedKernel(path).run
        self._operator = self._define()

    def __call__(self, *arguments: Tensor | float, **named: Tensor | float) -> Any:
        """Runs the kernel on the current stream of the tensors' GPU.

        Raises:
            TypeError: an argument is missing, given twice, or unknown.
            ArgumentValueError, ArgumentTypeError: an argument does not fit.
            DeviceError, LaunchError, CompileError: as of `schedgen.kernels.launcher.launcher`.
        """
        return self.computed(*operators.in_order(self._names, arguments, named))

    def computed(self, *arguments: Tensor | float) -> Any:
        """What the operator returns; as a part of the plan that is being made, if one is."""
        by = self._operator if plans.current() is None else self._operator.in_python
        return by(*arguments)

    def store(self, *arguments: Tensor | float) -> None:
        """Runs the kernel on what its file's ARGUMENTS say, results among them, which it writes.

        Nothing is copied, and it is no operator of its own. Raises what `GeneratedKernel` raises.
        """
        self._launch(*arguments)

    def __repr__(self) -> str:
        arguments = _list([*(parameter.name for parameter in self.inputs), *self.free])
        results = _list([parameter.name for parameter in self.outputs])
        return f"<kernel {self.facts.kernel} for {self.facts.target}: ({arguments}) -> {results}>"

    def _define(self) -> Operator:
        """The operator, named by the text of the file: equal files are one operator."""
        name = f"{self.facts.kernel}_{self.facts.target}_{self.facts.sha256[:_SHOWN]}"
        found = operators.defined(name)
        if found is not None:
            return found
        sizes = [f"SymInt {extent}_" for extent in self.free]
        schema = schema_of(name, self.inputs, sizes, len(self.outputs))
        return Operator(schema, self._run, self.fake, anew=whole(self.inputs))

    def told(self, **named: Tensor | float) -> tuple[tuple[Tensor, ...], following.Counted | None]:
        """What it stores, and where its output tiles are counted, for a kernel that follows it
        (`schedgen.following`); it is no operator of its own. Raises what a call raises.
        """
        return self._stored(*operators.in_order(self._names, (), named))

    def _run(self, *arguments: Any) -> Tensor | tuple[Tensor, ...]:
        results, _ = self._stored(*arguments)
        return results[0] if len(results) == 1 else results

    def _stored(self, *arguments: Any) -> tuple[tuple[Tensor, ...], following.Counted | None]:
        results = self._results(*arguments)
        for parameter, result in zip(self.outputs, results, strict=True):
            if parameter.name in self.facts.sums:
                result.zero_()
        by_name = {
            p.name: layouts.accessible(a) if p.extents else a
            for p, a in zip(self.inputs, arguments, strict=False)
        }
        by_name |= {p.name: r for p, r in zip(self.outputs, results, strict=True)}
        words, counted = self._words(by_name)
        by_name |= words
        self._launch(*(by_name[parameter.name] for parameter in self.facts.parameters))
        return results, counted

    def _words(
        self, given: Mapping[str, Any]
    ) -> tuple[dict[str, Tensor], following.Counted | None]:
        """Zeros by which output tiles take turns, or are counted, and how many will be."""
        extents: dict[str, int] = {}
        for parameter in self.facts.parameters:
            if parameter.extents and parameter.name in given:
                fits(parameter, given[parameter.name], extents)
        like = next(value for value in given.values() if isinstance(value, Tensor))
        counted = following.zeros(self.facts, extents, like)
        words = turns.zeros(self.facts, extents, like)
        return words | ({} if counted is None else {counted.name: counted.words}), counted

    def fake(self, *arguments: Any) -> Tensor | tuple[Tensor, ...]:
        """Empty results. Raises ArgumentValueError, ArgumentTypeError: one does not fit."""
        results = self._results(*arguments)
        return results[0] if len(results) == 1 else results

    def _results(self, *arguments: Any) -> tuple[Tensor, ...]:
        """Empty results, if the shapes of the arguments fit together."""
        extents: dict[str, int] = {}
        for parameter, argument in zip(self.inputs, arguments, strict=False):
            if parameter.extents:
                fits(parameter, argument, extents)
        extents |= dict(zip(self.free, arguments[len(self.inputs) :], strict=True))
        like = next(argument for argument in arguments if isinstance(argument, Tensor))
        return tuple(
            layouts.room(
                like.new_empty(0, dtype=DTYPES[result.dtype]), [extents[e] for e in result.extents]
            )
            for result in self.outputs
        )


def spec_kernel(
    name: str,
    settings: Settings,
    target: str | None = None,
    *,
    tuned: Path | None = None,
    pace: Sequence[str] = (),
) -> SpecKernel:
    """The kernel of the spec ``name``, as `schedgen.kernels.kernel` makes it.

    Raises what that raises.
    """
    from schedgen.machine_file import read_machine
    from schedgen.spec.reader import read_spec

    read = read_spec(name)
    if tuned is not None:
        from schedgen.driver.tuned import generated

        if settings or pace:
            first = next(iter(settings), "pace")
            raise ArgumentValueError(
                first, "tuned is given, too", "settings of their own or tuned", f"without {first}"
            )
        return function_of(_written(*generated(tuned, read, target)))
    machine = read_machine(target or target_of_gpu(read.file.kernel, read.file.targets))
    chosen = worded(settings)
    shipped = None if pace else lock_file.same(read, machine, chosen)
    if shipped is not None:
        return function_of(library.file(shipped))
    text = _text(name, read, target or machine.name, machine, chosen, tuple(pace))
    return function_of(_written(*text))


def worded(settings: Settings) -> dict[str, str]:
    """Settings as they are written in commands. Raises ArgumentTypeError for what is none."""
    for name, value in settings.items():
        if not isinstance(value, bool | int | float | str):
            raise ArgumentTypeError(
                name, f"it is {value!r}", _list(list(_TYPES.values())), f"{name}=128"
            )
    return {n: str(v).lower() if isinstance(v, bool) else str(v) for n, v in settings.items()}


def target_of_gpu(name: str, targets: Sequence[str]) -> str:
    """The machine model among those of a spec that is of the GPU's architecture.

    Raises DeviceError: there is no GPU, or none is.
    """
    if not torch.cuda.is_available():
        raise DeviceError(
            f"there is no GPU to tell the target of {name} by; fix: "
            f"target='{targets[0]}'" + (f", or one of {_list(targets)}" if len(targets) > 1 else "")
        )
    arch = architecture(torch.device("cuda", torch.cuda.current_device()))
    return target_for(name, targets, arch)


def target_for(name: str, targets: Sequence[str], arch: str) -> str:
    """The machine model among those of a spec that is of an architecture, such as ``sm_90a``.

    Raises DeviceError: none is.
    """
    from schedgen.machine_file import read_machine

    found = next((one for one in targets if read_machine(one).arch == arch), None)
    if found is None:
        raise DeviceError(
            f"{name} is written for {_list(targets)}, and this GPU is {arch}; fix: add "
            "a machine model with that architecture to its 'targets'"
        )
    return found


def _text(
    name: str,
    spec: Spec,
    target: str,
    machine: Machine,
    settings: Mapping[str, str],
    pace: tuple[str, ...],
) -> tuple[str, str]:
    """The name and the text of the generated file, which is made if it is not kept; ``target`` is
    the name or the path of ``machine``.
    """
    store, own = Store(), lock_file.by_itself(spec, machine.name)
    said = lock_file.told(spec, machine.name, settings)
    made_from = [
        [spec.source.file, spec.source.sha256, sorted(said.items())],
        [machine.name, machine.sha256],
        list(pace),
        sorted(styles.styled((), spec.file.kernel, machine.name, settings, own)),
    ]
    kept = store.get("kernel", made_from)
    if kept is None:
        from schedgen.driver.selecting import selected

        given = [f"--set={name}={value}" for name, value in sorted(settings.items())]
        ahead = shlex.join(["schedgen", "build", "--spec", name, "-t", target, *given])
        progress = _Progress(spec.file.kernel, machine.name, "" if pace else ahead)
        made, _ = selected(name, target, settings, progress, pace=pace, store=store)
        if not pace:
            made = styles.in_style(made, spec, machine, settings, store)
        kept = f"{made.name}\n{made.text}"
        store.put("kernel", made_from, kept)
    file, _, text = kept.partition("\n")
    return file, text


class _Progress:
    """What is done while a kernel is made, as information. That it is made at all is a warning,
    once its input was found to be right: somebody may be waiting for it. ``ahead`` is a command
    that does it before, if there is one.
    """

    def __init__(self, kernel: str, target: str, ahead: str) -> None:
        self._making = f"making {kernel} for {target}, once on this machine, which may take minutes"
        self._making += f"; before the first call it is done by: {ahead}" if ahead else ""
        self._told = False

    def __call__(self, text: str) -> None:
        if not self._told:
            log.warning("%s", self._making)
        self._told = True
        log.info("%s", text)


def schema_of(name: str, inputs: Sequence[Parameter], sizes: Sequence[str], results: int) -> str:
    """The schema of an operator that takes these arguments and returns so many tensors."""
    kinds = ("Tensor" if p.extents else "int" if p.whole else "float" for p in inputs)
    takes = [f"{kind} {p.name}_" for kind, p in zip(kinds, inputs, strict=True)]
    returns = ", ".join(["Tensor"] * results)
    return f"{name}({', '.join([*takes, *sizes])}) -> {returns if results == 1 else f'({returns})'}"


def whole(inputs: Sequence[Parameter]) -> list[str]:
    """The arguments of an operator that are integers of 32 bits, others in each call."""
    return [f"{p.name}_" for p in inputs if not p.extents and p.whole]


_known: dict[Path, SpecKernel] = {}
_making = threading.Lock()


def function_of(path: Path) -> SpecKernel:
    """The function of a generated file: one for each, whose name and folder say what is in it."""
    with _making:
        if path not in _known:
            _known[path] = SpecKernel(path)
        return _known[path]


def _written(name: str, text: str) -> Path:
    path = cache.place(name, sha256(text.encode()).hexdigest())
    if path.exists() and path.read_text("utf-8") == text:
        return path
    return cache.write(path, text)


def _free(inputs: Sequence[Parameter], outputs: Sequence[Parameter]) -> tuple[str, ...]:
    known = {extent for parameter in inputs for extent in parameter.extents}
    every = (extent for parameter in outputs for extent in parameter.extents)
    return tuple(dict.fromkeys(extent for extent in every if extent not in known))


def fits(parameter: Parameter, argument: Tensor, extents: dict[str, int]) -> None:
    """Notes the extents of a tensor; those that it shares with others have to be the same."""
    wanted = f"({', '.join(parameter.extents)})"
    if argument.dim() != len(parameter.extents):
        got = f"it has {argument.dim()} dimensions"
        raise ArgumentValueError(parameter.name, got, wanted, f"reshape it to {wanted}")
    if argument.dtype != DTYPES[parameter.dtype]:
        dtype = DTYPES[parameter.dtype]
        got = f"its dtype is {argument.dtype}"
        raise ArgumentTypeError(parameter.name, got, f"{dtype}", f"{parameter.name}.to({dtype})")
    for extent, size in zip(parameter.extents, argument.shape, strict=True):
        if extents.setdefault(extent, size) != size:
            got = f"its {extent} is {size}"
            allowed, fix = f"{extents[extent]}", "pass tensors that fit together"
            raise ArgumentValueError(parameter.name, got, allowed, fix)


def _list(names: Sequence[str]) -> str:
    return ", ".join(names)
