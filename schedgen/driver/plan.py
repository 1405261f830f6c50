"""Plans with numbers: which kernels are called with which settings, and what each call takes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction

from schedgen.driver.binding import kernels_of
from schedgen.driver.plan_model import BoundCall, BoundPlan, Number, Same, product
from schedgen.errors import DiagnosticSink, SchedgenError, SpecError, suggest
from schedgen.expressions import Name
from schedgen.kernel import Kernel, Kind
from schedgen.layouts import DTYPE_BITS
from schedgen.machine import Machine
from schedgen.operations.fields import IDENTIFIER
from schedgen.ordered import ordered_sums
from schedgen.spec.parameters import bind_parameters
from schedgen.spec.plan import Call, Plan
from schedgen.spec.reader import read_spec
from schedgen.spec.values import Location, Path, Scope, Value, show, spell
from schedgen.tensors import INTEGERS, Argument


def bind_plan(plan: Plan, machine: Machine, settings: Mapping[str, str]) -> BoundPlan:
    """Return ``plan`` with numbers: ``settings`` fixes its parameters by name.

    Raises:
        SpecError: with the mistakes of the file, or of a kernel's.
        SchedgenError: it is not written for ``machine``, or a setting is wrong.
    """
    file = plan.file
    if machine.name not in file.targets:
        fix = suggest(machine.name, file.targets) or f"it is written for {', '.join(file.targets)}"
        raise SchedgenError(f"plan {file.plan} has no target '{machine.name}'; {fix}")
    sink = DiagnosticSink()
    chosen = [name for name, parameter in file.parameters.items() if parameter.choose is not None]
    for name in chosen:
        path = ("parameters", name, "choose")
        message = "a plan has nothing to choose by: each of its kernels chooses for itself"
        sink.error(plan.source.diagnostic("choice-in-plan", message, path, fix="use 'default'"))
    sink.raise_if_any()
    (values,) = bind_parameters(plan.source, file, machine.name, settings, sink)
    binder = _Binder(plan, machine, Scope(plan.source, sink, values))
    bound = binder.bind()
    sink.raise_if_any()
    return bound


class _Binder:
    """Goes through the calls in their order; mistakes are reported in ``scope``."""

    def __init__(self, plan: Plan, machine: Machine, scope: Scope) -> None:
        self._plan, self._machine, self._scope = plan, machine, scope
        self._arguments = {one.name: one for one in self._declared()}
        self._extents: set[str] = set()
        self._same = Same()
        self._shapes: dict[str, tuple[tuple[str, str], ...]] = {}
        self._dtypes: dict[str, str] = {}
        self._read: set[str] = set()
        self._computed: set[str] = set()

    def bind(self) -> BoundPlan:
        calls = [
            (number, call)
            for number, call in enumerate(self._plan.file.calls)
            if self._scope.truth(call.only, ("calls", number, "only"))
        ]
        kernels = {number: self._kernel(call, ("calls", number)) for number, call in calls}
        self._scope.sink.raise_if_any()
        last = {
            spell(call.given.get(result, result)): number
            for number, call in calls
            for result in _results(kernels[number][1])
        }
        for name, one in self._arguments.items():
            if name not in last:
                self._hold(name, one, "")
                self._extents |= {*one.shape}
        bound: list[BoundCall] = []
        for number, call in calls:
            spec, kernel, chosen = kernels[number]
            bound.append(self._call(number, call, spec, kernel, chosen, last))
        return self._bound(tuple(bound), last)

    def _bound(self, calls: tuple[BoundCall, ...], last: Mapping[str, int]) -> BoundPlan:
        for name in self._arguments:
            if name not in last and name not in self._read:
                fix = suggest(name, last) or "remove it, or let a call take or compute it"
                message = f"no call takes '{name}', and none computes it"
                self._scope.error(
                    "unused-argument", message, ("arguments", name), key=True, fix=fix
                )
        for extent in sorted(self._extents):
            size = self._same.number(("", extent))
            if size is not None:
                message = f"{extent}, of what is taken, and {size} have to be the same extent"
                fix = "name the extent instead of the number"
                self._scope.error("shapes-differ", message, ("arguments",), key=True, fix=fix)
        inputs = tuple(one for name, one in self._arguments.items() if name not in last)
        results = tuple(one for name, one in self._arguments.items() if name in last)
        if not results:
            message, fix = "no argument is computed by a call", "declare what it returns"
            self._scope.error("plan-without-result", message, ("arguments",), key=True, fix=fix)
        inputs = tuple(sorted(inputs, key=lambda one: not one.shape))  # tensors first
        return BoundPlan(self._plan.file.plan, self._machine.name, inputs, results, calls)

    def _declared(self) -> Iterator[Argument]:
        words = [*DTYPE_BITS, *INTEGERS]
        for name, one in self._plan.file.arguments.items():
            path = ("arguments", name)
            if self._scope.truth(one.only, (*path, "only")):
                dtype = self._scope.word(one.dtype, (*path, "dtype"), words, "data type")
                yield Argument(name, tuple(one.shape), dtype or "f32")

    def _kernel(self, call: Call, path: Path) -> tuple[str, Kernel, dict[str, str]]:
        """What a call calls: what it is known by, the kernel itself, and its settings."""
        known = self._plan.kernels
        if call.call not in known:
            fix = suggest(call.call, known) or "name one of this file, or of 'schedgen specs'"
            message = f"there is no kernel '{call.call}'"
            self._scope.error("unknown-kernel", message, (*path, "call"), fix=fix)
            self._scope.sink.raise_if_any()
        settings: dict[str, str] = {}
        for key, text in call.set.items():
            value = self._word(text, (*path, "set", key))
            if value is not None:
                settings[key] = show(value)
        try:
            kernels = kernels_of(read_spec(known[call.call]), self._machine, settings)
        except SpecError:
            raise
        except SchedgenError as error:
            at = (*path, "set" if call.set else "call")
            self._scope.error("bad-call", str(error), at, fix="see what the kernel has")
            self._scope.sink.raise_if_any()
            raise
        return known[call.call], kernels[0], settings

    def _word(self, text: bool | int | str, path: Path) -> Value | None:
        """The value of a setting: of an expression over parameters, or a word."""
        expression = self._scope.expression(text, path)
        if isinstance(expression, Name) and expression.name not in self._scope.values:
            return expression.name
        return None if expression is None else self._scope.value(text, path)

    def _call(
        self,
        number: int,
        call: Call,
        spec: str,
        kernel: Kernel,
        chosen: Mapping[str, str],
        last: Mapping[str, int],
    ) -> BoundCall:
        path = ("calls", number)
        results, made = _results(kernel), {one.turns for one in ordered_sums(kernel)}
        made |= {kernel.tells} if kernel.tells else set()
        taken = [one for one in kernel.arguments if one.name not in results | made]
        known = {extent for one in taken for extent in one.passed}
        returned = [one for one in kernel.arguments if one.name in results]
        sizes = dict.fromkeys(e for one in returned for e in one.passed if e not in known)
        allowed = [*(one.name for one in (*taken, *returned)), *sizes]
        for name in call.given:
            if name not in allowed:
                fix = suggest(name, allowed) or f"it has {', '.join(allowed)}"
                message = f"{call.call} has no argument '{name}'"
                at = (*path, "with", name)
                self._scope.error("unknown-argument", message, at, key=True, fix=fix)
        tensors: dict[str, str] = {}
        numbers: dict[str, Number] = {}
        for one in taken:
            text, at = call.given.get(one.name, one.name), _where(path, call, one.name)
            if one.passed:
                tensors[one.name] = self._taken(text, at, one, number, last)
            else:
                numbers[one.name] = self._number(text, at, one)
        wanted = {
            extent: self._size(call.given.get(extent, extent), _where(path, call, extent))
            for extent in sizes
        }
        for extent, size in wanted.items():
            at = _where(path, call, extent)
            if isinstance(size, int):
                self._same.fixed((str(number), extent), size)
            else:
                self._joined(("", size), (str(number), extent), at)
        stored: dict[str, str] = {}
        for one in returned:
            name = spell(call.given.get(one.name, one.name))
            self._result(name, _where(path, call, one.name), one, number)
            stored[one.name] = name
        return BoundCall(
            spec,
            tuple(chosen.items()),
            tuple(tensors.items()),
            tuple(numbers.items()),
            tuple(wanted.items()),
            tuple(stored.items()),
        )

    def _taken(
        self,
        text: bool | int | str,
        at: Location,
        one: Argument,
        number: int,
        last: Mapping[str, int],
    ) -> str:
        """A tensor that a call reads: an argument of the plan, or what an earlier call returns."""
        name = spell(text)
        if not self._named(name, at, one):
            return name
        if name not in self._shapes:
            if last.get(name) == number:
                message, fix = f"'{name}' is what this call returns", "give its result another name"
                self._scope.error("read-before-computed", message, at, fix=fix)
            elif name in last:
                message = f"'{name}' is computed by call {last[name] + 1}, which comes later"
                self._scope.error("read-before-computed", message, at, fix="change their order")
            else:
                fix = suggest(name, self._shapes) or "declare it, or say with 'with' what it is"
                message = f"there is no tensor '{name}' for '{one.name}'"
                self._scope.error("unknown-tensor", message, at, fix=fix)
            return name
        self._read.add(name)
        self._agree(name, at, one, str(number))
        return name

    def _named(self, name: str, at: Location, one: Argument) -> bool:
        """Whether a tensor can have this name."""
        if re.match(IDENTIFIER, name) and name not in ("true", "false"):
            return True
        message = f"'{name}' is no name of a tensor, which '{one.name}' is"
        self._scope.error("bad-name", message, at, fix="write letters, digits and underscores")
        return False

    def _result(self, name: str, at: Location, one: Argument, number: int) -> None:
        """A tensor that a call returns: a result of the plan, or for later calls."""
        if not self._named(name, at, one):
            return
        if name in self._computed:
            message = f"'{name}' is computed by an earlier call, too"
            self._scope.error("computed-twice", message, at, fix="give one of them another name")
            return
        self._computed.add(name)
        declared = self._arguments.get(name)
        if declared is None:
            self._hold(name, one, str(number))
            return
        self._hold(name, declared, "")
        self._agree(name, at, one, str(number))

    def _hold(self, name: str, one: Argument, call: str) -> None:
        self._shapes[name] = tuple((call, extent) for extent in one.passed)
        self._dtypes[name] = one.dtype

    def _agree(self, name: str, at: Location, one: Argument, call: str) -> None:
        """A kernel's argument has to be of the type and the extents of what it is."""
        if self._dtypes[name] != one.dtype:
            message = f"'{name}' is {self._dtypes[name]}, and '{one.name}' is {one.dtype}"
            fix = "set the data type of the kernel, or declare another one"
            self._scope.error("types-differ", message, at, fix=fix)
        shape = self._shapes[name]
        if len(shape) != len(one.passed):
            message = (
                f"'{name}' has {len(shape)} extents, and '{one.name}' has "
                f"{len(one.passed)}: {', '.join(one.passed)}"
            )
            self._scope.error("shapes-differ", message, at, fix="pass another tensor")
            return
        for mine, theirs in zip(shape, one.passed, strict=True):
            self._joined(mine, (call, theirs), at)

    def _joined(self, one: tuple[str, str], other: tuple[str, str], at: Location) -> None:
        """Two extents have to be the same one."""
        clash = self._same.joined(one, other)
        if clash:
            message = f"with this, {clash[0]} and {clash[1]} have to be the same extent"
            fix = "give them one name, or pass another tensor"
            self._scope.error("shapes-differ", message, at, fix=fix)

    def _number(self, text: bool | int | str, at: Location, one: Argument) -> Number:
        """A number of the plan, times a value of parameters, or such a value."""
        nothing = Number(Fraction(0))
        names = [name for name, argument in self._arguments.items() if not argument.shape]
        expression = self._scope.expression(text, at.path)
        if expression is None:
            return nothing
        if isinstance(expression, Name) and expression.name not in {*names, *self._scope.values}:
            fix = suggest(expression.name, names) or "declare it, or say with 'with' what it is"
            message = f"there is no number '{expression.name}' for '{one.name}'"
            self._scope.error("unknown-number", message, at, fix=fix)
            return nothing
        found = product(expression, names, self._scope)
        if found is None:
            message = f"'{spell(text)}' is no number of the plan times a value of its parameters"
            fix = "pass a number of its own for what else is computed"
            self._scope.error("bad-number", message, at, fix=fix)
            return nothing
        if found.name:
            self._read.add(found.name)
            dtype = self._arguments[found.name].dtype
            if dtype != one.dtype:
                message = f"'{found.name}' is {dtype}, and '{one.name}' is {one.dtype}"
                self._scope.error("types-differ", message, at, fix=f"declare it as {one.dtype}")
        if one.dtype in INTEGERS and (found.factor != 1 if found.name else not _is_whole(found)):
            message = f"'{spell(text)}' is neither one of {one.dtype} nor a whole number of 32 bits"
            self._scope.error("bad-number", message, at, fix=f"pass it as '{one.name}' takes it")
        return found

    def _size(self, text: bool | int | str, at: Location) -> str | int:
        """What an extent is that only results have: one of what the plan takes, or a number."""
        name = spell(text)
        if name in self._extents:
            return name
        expression = self._scope.expression(text, at.path)
        if isinstance(expression, Name) and expression.name not in self._scope.values:
            fix = suggest(name, self._extents) or "name one of what the plan takes, or a parameter"
            self._scope.error("unknown-extent", f"'{name}' is no extent here", at, fix=fix)
            return name
        return self._scope.integer(text, at.path)


def _results(kernel: Kernel) -> set[str]:
    """The arguments that a kernel stores, or adds to."""
    return {o.tensor or "" for o in kernel.operations if o.kind is Kind.STORE}


def _is_whole(number: Number) -> bool:
    return number.factor.denominator == 1 and -(1 << 31) <= number.factor < 1 << 31


def _where(path: Path, call: Call, name: str) -> Location:
    """Where it says what an argument is: at its name in ``with``, or at the call."""
    return Location((*path, "with", name) if name in call.given else (*path, "call"))
