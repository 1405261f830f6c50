"""Functions as operators of torch, and their calls.

An operator has a friend of the same name behind a ``_``, which is compiled (`native`): it knows
plans (`plans`) for signatures of arguments that were seen before, and returns None for others. The
operator itself is written in Python, checks its arguments, and works everywhere; it has a fake
implementation, and under torch.compile it is what is called. The second call with a signature makes
the plan: one that is never seen again would not be worth it.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_compiling
from torch.nn import Parameter

from schedgen.kernels import native, plans
from schedgen.kernels.errors import GradientError

log = logging.getLogger("schedgen.kernels")

SPACE = "schedgen"
KEY = "CUDA"
"""The dispatch key of tensors that calls are planned for."""
_LETTERS = {"Tensor": "T", "Tensor?": "O", "float": "F", "bool": "B", "SymInt": "I", "int": "I"}
"""Types of arguments, as `native.operator` has them."""
_MOST_SEEN = 4096
_PLAIN = {bool, int, float, type(None)}

_C: Any = torch._C  # pyright: ignore[reportPrivateUsage]
# Looked up once: each call asks.
_gradients, _modes = torch.is_grad_enabled, _C._len_torch_dispatch_stack
_transforms = _C._functorch.peek_interpreter_stack

_library = torch.library.Library(SPACE, "DEF")
_defined: dict[str, Operator] = {}


def defined(name: str) -> Operator | None:
    """The operator ``schedgen::name``, if there is one."""
    return _defined.get(name)


class Operator:
    """The operator ``schedgen::...``: ``compute`` for tensors, ``fake`` for their shapes.

    ``compute`` is called for every device, to say what is wrong with it. There are no gradients,
    unless `differentiate` says how to find them.

    Args:
        schema: results are tensors, or none where tensor arguments are overwritten.
        units: numbers of which ``compute`` asks whether they are 1; of others plans know the sign.
        anew: integers of 32 bits that are passed on to kernels as they are, such as seeds, of which
            plans know nothing; others are part of what plans are for.

    Attributes:
        public: the operator of torch.
        native: what is compiled of it; None before the first call, and where nothing can be.
    """

    def __init__(
        self,
        schema: str,
        compute: Callable[..., Any],
        fake: Callable[..., Any],
        *,
        units: Collection[str] = (),
        anew: Collection[str] = (),
    ) -> None:
        self._name, self._takes, returns = _parsed(schema)
        self._letters = "".join(
            "W"
            if "!" in kind
            else "U"
            if name in units
            else "N"
            if name in anew
            else _LETTERS[kind]
            for name, kind in self._takes
        )
        self._anew = [n for n, (name, _) in enumerate(self._takes) if name in anew]
        self._results = returns.count("Tensor")
        self._written = [n for n, (_, kind) in enumerate(self._takes) if "!" in kind]
        self._compute = compute
        self.native: native.Native | None = None
        self._opened = False
        self._seen: OrderedDict[bytes, bool] = OrderedDict()
        self._save: Callable[..., None] | None = None
        self._gradients: Callable[..., Any] | None = None
        self._define(schema, fake)
        self.public: Callable[..., Any] = getattr(torch.ops.schedgen, self._name).default
        planned = getattr(torch.ops.schedgen, f"_{self._name}").default
        self._planned: Callable[..., Any] = planned._op  # without a frame of Python around it
        _defined[self._name] = self

    def __call__(self, *arguments: Any) -> Any:
        """The operator called with all its arguments, by position."""
        if is_compiling() or self.native is None or not plain(arguments):
            return self.public(*arguments)
        try:
            found = self._planned(*arguments)
        except NotImplementedError:  # tensors of another kind of device
            return self.public(*arguments)
        if (found if self._results < 2 else found[0]) is None or found is False:
            return self.public(*arguments)
        return found if self._results else self._overwritten(arguments)

    def in_python(self, *arguments: Any) -> Any:
        """What the operator computes, without anything compiled."""
        return self._compute(*arguments)

    def differentiate(self, save: Callable[..., None], gradients: Callable[..., Any]) -> None:
        """``save(ctx, inputs, output)`` keeps what ``gradients(ctx, *gradients of results)`` needs,
        which returns one for each argument, as of `torch.library.register_autograd`.
        """
        self._save, self._gradients = save, gradients

    def _define(self, schema: str, fake: Callable[..., Any]) -> None:
        name = self._name
        tags = (torch.Tag.pt2_compliant_tag, torch.Tag.needs_fixed_stride_order)
        _library.define(schema, tags=tags)
        _library.impl(name, self._run, "CompositeExplicitAutograd")
        torch.library.register_fake(f"{SPACE}::{name}", fake, lib=_library)
        takes = ", ".join(f"{kind} {name}" for name, kind in self._takes).replace("SymInt", "int")
        found = ", ".join(["Tensor?"] * self._results) or "bool"
        _library.define(f"_{name}({takes}) -> " + (f"({found})" if self._results > 1 else found))
        _library.impl(f"_{name}", torch.library.fallthrough_kernel, "Autograd")
        if "!" in schema:  # torch derives nothing through what is overwritten
            return

        def save(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            if self._save is not None:
                self._save(ctx, inputs, output)

        def backward(ctx: Any, *gradients: Any) -> Any:
            if self._gradients is not None:
                return self._gradients(ctx, *gradients)
            raise GradientError(
                f"{SPACE}::{name} has no backward pass; fix: call it under torch.no_grad(), or "
                "detach its arguments"
            )

        torch.library.register_autograd(
            f"{SPACE}::{name}", backward, setup_context=save, lib=_library
        )

    def _run(self, *arguments: Any) -> Any:
        """The implementation for tensors: as planned, or in Python."""
        device = next(a.device for a in arguments if isinstance(a, Tensor))
        if device.type != KEY.lower() or not self._open():
            return self.in_python(*arguments)
        assert self.native is not None
        found = self._planned(*arguments)
        if (found if self._results < 2 else found[0]) is not None and found is not False:
            return found if self._results else None  # torch counts versions for its operators
        signature = self.native.missed()
        result = self._compute(*arguments)
        if signature:
            self._note(self.native, signature, arguments)
        return result

    def _overwritten(self, arguments: Sequence[Any]) -> None:
        """Says that arguments are others now, as torch does for its own operators."""
        for n in self._written:
            torch.autograd.graph.increment_version(arguments[n])

    def _open(self) -> bool:
        """Whether there is something compiled; the first call looks."""
        if not self._opened:
            self._opened = True
            name = f"_{self._name}"
            self.native = native.operator(SPACE, name, KEY, self._letters, self._results)
        return self.native is not None

    def _note(self, compiled: native.Native, signature: bytes, arguments: Sequence[Any]) -> None:
        """Makes the plan for a signature when it is seen for the second time."""
        again = self._seen.get(signature)
        self._seen[signature] = again is None
        if again is None and len(self._seen) > _MOST_SEEN:
            self._seen.popitem(last=False)
        if not again:  # new, or known to have no plan
            return
        try:
            with plans.planning(arguments, self._anew) as recorder:
                results = self._compute(*recorder.arguments)
            found = results if self._results > 1 else [results] * self._results
            compiled.keep(signature, plans.encoded(recorder.plan(found)))
            del self._seen[signature]  # plans may be dropped, and are made again then
        except plans.Unplannable as error:
            log.debug("calls of %s with these arguments go through Python: %s", self._name, error)


def _parsed(schema: str) -> tuple[str, list[tuple[str, str]], str]:
    """Name, arguments with their types, and results."""
    head, _, returns = schema.partition(" -> ")
    name, _, takes = head.removesuffix(")").partition("(")
    pairs = [one.rsplit(" ", 1) for one in takes.split(", ")]
    return name, [(argument, kind) for kind, argument in pairs], returns


def in_order(
    names: Sequence[str], arguments: Sequence[Any], named: Mapping[str, Any]
) -> Sequence[Any]:
    """Arguments of a call by position. Raises TypeError: one is missing, or unknown."""
    if not named and len(arguments) == len(names):
        return arguments
    every = ", ".join(names)
    if len(arguments) > len(names):
        raise TypeError(f"{len(arguments)} arguments, {len(names)} expected: {every}")
    given = dict(zip(names, arguments, strict=False))
    for name in named:
        if name in given or name not in names:
            problem = "is given twice" if name in given else "is no argument"
            raise TypeError(f"'{name}' {problem}; arguments are {every}")
    given |= named
    missing = ", ".join(name for name in names if name not in given)
    if missing:
        raise TypeError(f"{missing} missing; arguments are {every}")
    return [given[name] for name in names]


def plain(arguments: Sequence[Any]) -> bool:
    """Whether these are tensors, if any, of which nobody but the kernel has to know."""
    gradients = _gradients()
    for argument in arguments:
        kind = type(argument)  # pyright: ignore[reportUnknownVariableType]
        if kind is Tensor or kind is Parameter:
            if gradients and argument.requires_grad:
                return False
        elif kind not in _PLAIN:
            return False
    return not _modes() and _transforms() is None
