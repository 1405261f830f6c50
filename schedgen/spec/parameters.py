"""Binds the parameters of a spec: defaults, settings, choices of the solver, derived values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import product
from math import prod
from typing import Protocol

from schedgen.errors import DiagnosticSink, SchedgenError, suggest
from schedgen.expressions import ExpressionError, Name, evaluate, parse, references
from schedgen.spec.schema import Parameter
from schedgen.spec.source import Source
from schedgen.spec.values import Path, Scope, Value, show

MAX_COMBINATIONS = 256
_COMPANIONS = {"choose": ("values",), "derive": ("on",)}
_PLACEHOLDER = Fraction(1)  # stands for a value after its mistake was reported


class Declared(Protocol):
    """What parameters are declared in: a kernel, or a plan of several."""

    @property
    def kernel(self) -> str:
        """Its name."""
        ...

    @property
    def targets(self) -> list[str]: ...

    @property
    def parameters(self) -> dict[str, Parameter]: ...


def literal(text: bool | int | str) -> Value:
    """Return a parameter's value: true, false, an exact number, or else a word.

    Raises:
        ExpressionError: ``text`` is no single value.
    """
    if isinstance(text, bool):
        return text
    expression = parse(str(text))
    if isinstance(expression, Name) and expression.distance == 0:
        return expression.name
    names = references(expression)
    if names:
        first = names[0]
        message = (
            f"a parameter's value is a number or a word, not an expression over '{first.name}'"
        )
        raise ExpressionError(message, first.offset, first.length, "use 'derive' for expressions")
    return evaluate(expression, {})


def bind_parameters(
    source: Source,
    spec: Declared,
    target: str,
    settings: Mapping[str, str],
    sink: DiagnosticSink,
) -> list[dict[str, Value]]:
    """Return every combination of values that the solver may pick from, preferred ones first.

    ``settings`` fixes parameters by name.

    Raises:
        SchedgenError: a setting names no parameter, or its value is not allowed.
        SpecError: with everything that is wrong with the parameters.
    """
    scope = Scope(source, sink, {})
    candidates: dict[str, list[Value]] = {}
    for name, parameter in spec.parameters.items():
        _check_keys(scope, spec, name, parameter)
        values = _candidates(scope, name, parameter, target)
        if name in settings:
            candidates[name] = [_setting(scope, name, parameter, settings[name])]
        elif parameter.derive is None:
            candidates[name] = values
    for name in settings:
        if name not in spec.parameters:
            some = ", ".join(spec.parameters) or "no parameters"
            fix = suggest(name, spec.parameters) or f"it has {some}"
            raise SchedgenError(f"--set {name}: {spec.kernel} has no parameter '{name}'; {fix}")
    _check_number(scope, candidates)
    sink.raise_if_any()
    bound = [
        _derive(source, spec, dict(zip(candidates, values, strict=True)), sink)
        for values in product(*candidates.values())
    ]
    sink.raise_if_any()
    return bound


def _check_number(scope: Scope, candidates: Mapping[str, Sequence[Value]]) -> None:
    """Each combination of choices is a kernel to be scheduled, which takes its time."""
    if prod(map(len, candidates.values())) > MAX_COMBINATIONS:
        message = f"the choices of the parameters have more than {MAX_COMBINATIONS} combinations"
        last = [name for name, values in candidates.items() if len(values) > 1][-1]
        path = ("parameters", last, "choose")
        scope.error("too-many-choices", message, path, fix="leave out some, or use 'default'")


def _derive(
    source: Source, spec: Declared, values: dict[str, Value], sink: DiagnosticSink
) -> dict[str, Value]:
    """Return ``values`` and those derived from them, in the order of the file."""
    if sink:
        return values  # the same mistake for other choices
    bound = dict(values)
    for name, parameter in spec.parameters.items():
        if parameter.derive is not None and name not in bound:
            value = Scope(source, sink, bound).value(
                parameter.derive, ("parameters", name, "derive")
            )
            bound[name] = _PLACEHOLDER if value is None else value
            if value is not None and parameter.values is not None:
                _derived(Scope(source, sink, bound), name, parameter)
    return {name: bound[name] for name in spec.parameters}


def _derived(scope: Scope, name: str, parameter: Parameter) -> None:
    """Reports a derived value that is not among those allowed, and what it is made of."""
    value, path = scope.values[name], ("parameters", name, "derive")
    allowed = _values(scope, parameter.values or [], ("parameters", name), "values")
    if _among(value, allowed):
        return
    made_of = [one.name for one in references(parse(str(parameter.derive)))]
    given = ", ".join(f"{one}={show(scope.values[one])}" for one in dict.fromkeys(made_of))
    message = f"'{name}' is {show(value)}, which is not among the values allowed"
    message += f", with {given}" if given else ""
    fix = f"give these other values: {name} has to be {' or '.join(map(show, allowed))}"
    scope.error("bad-value", message, path, fix=fix)


def _check_keys(scope: Scope, spec: Declared, name: str, parameter: Parameter) -> None:
    """A parameter has one source of its value, and no keys that do nothing."""
    path = ("parameters", name)
    sources = [
        key for key in ("default", "choose", "derive") if getattr(parameter, key) is not None
    ]
    if not sources:
        message = f"parameter '{name}' has no value"
        fix = "add 'default: ...', 'choose: [...]' or 'derive: ...'"
        scope.error("parameter-without-value", message, path, key=True, fix=fix)
    for key in sources[1:]:
        message = f"parameter '{name}' has both {sources[0]} and {key}"
        scope.error("contradicting-keys", message, (*path, key), key=True, fix="keep one of them")
    for key in _COMPANIONS.get(sources[0], ()) if sources else ():
        if getattr(parameter, key) is not None:
            message = f"'{key}' has no effect beside '{sources[0]}'"
            scope.error("contradicting-keys", message, (*path, key), key=True, fix="remove it")
    for target in parameter.on or ():
        if target not in spec.targets:
            fix = suggest(target, spec.targets) or f"the targets are {', '.join(spec.targets)}"
            message = f"'{target}' is not a target of this kernel"
            scope.error("unknown-target", message, (*path, "on", target), key=True, fix=fix)


def _candidates(scope: Scope, name: str, parameter: Parameter, target: str) -> list[Value]:
    """Return what the parameter may be on ``target``, after checking it for all targets."""
    path = ("parameters", name)
    allowed = None if parameter.values is None else _values(scope, parameter.values, path, "values")
    if parameter.choose is not None:
        choices = _values(scope, parameter.choose, path, "choose")
        fixed = {
            other: _allowed(scope, text, (*path, "on", other), choices)
            for other, text in (parameter.on or {}).items()
        }
        return [fixed[target]] if target in fixed else choices
    found = _PLACEHOLDER
    if parameter.default is not None:
        found = _allowed(scope, parameter.default, (*path, "default"), allowed)
    for other, text in (parameter.on or {}).items():
        value = _allowed(scope, text, (*path, "on", other), allowed)
        found = value if other == target else found
    return [found]


def _values(scope: Scope, texts: Sequence[bool | int | str], path: Path, key: str) -> list[Value]:
    """Return the values of a list, each of which should occur once."""
    values: list[Value] = []
    for number, text in enumerate(texts):
        value = _literal(scope, text, (*path, key, number))
        if value is not None and _among(value, values):
            message = f"'{show(value)}' is listed twice"
            scope.error("repeated-value", message, (*path, key, number), fix="remove one")
        elif value is not None:
            values.append(value)
    return values


def _allowed(
    scope: Scope, text: bool | int | str, path: Path, allowed: list[Value] | None
) -> Value:
    value = _literal(scope, text, path)
    if value is None:
        return _PLACEHOLDER
    if allowed is not None and not _among(value, allowed):
        fix = f"one of {', '.join(map(show, allowed))}"
        scope.error("bad-value", f"'{show(value)}' is not among the values allowed", path, fix=fix)
    return value


def _literal(scope: Scope, text: bool | int | str, path: Path) -> Value | None:
    try:
        return literal(text)
    except ExpressionError as error:
        scope.expression_error("bad-value", error, path)
        return None


def _setting(scope: Scope, name: str, parameter: Parameter, text: str) -> Value:
    """Return the value that a setting gives a parameter."""
    try:
        value = literal(text)
    except ExpressionError as error:
        raise SchedgenError(f"--set {name}={text}: {error}") from None
    quiet = Scope(scope.source, DiagnosticSink(), {})
    values = _values(quiet, parameter.values or [], ("parameters", name), "values")
    if parameter.values is not None and not _among(value, values):
        listed = ", ".join(map(show, values))
        raise SchedgenError(f"--set {name}={text}: allowed values are {listed}")
    return value


def _among(value: Value, values: Sequence[Value]) -> bool:
    """Whether ``value`` is one of ``values``; true is not 1."""
    return any(type(value) is type(other) and value == other for other in values)
