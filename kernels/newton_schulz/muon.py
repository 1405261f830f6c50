"""The Muon optimizer: momentum, orthogonalized by `polar`, all matrices of a shape at once.

`sharded` has what happens to matrices that several ranks share.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer, ParamsT

from schedgen.kernels.errors import ArgumentTypeError, ArgumentValueError
from schedgen.kernels.newton_schulz.coefficients import resolve
from schedgen.kernels.newton_schulz.polar_op import Coefficients, polar
from schedgen.kernels.newton_schulz.sharded import Step
from schedgen.kernels.newton_schulz.sharded_groups import Shared, Sharing
from schedgen.kernels.newton_schulz.sharded_layout import is_dtensor

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

_ADJUSTMENTS = (None, "original", "match_rms_adamw")
_lists: Any = torch
"""Its functions of lists of tensors are public by use only; torch.optim is built on them."""
_MOST_ELEMENTS = 1 << 28
"""Of one batch: float16 copies and Gram matrices of it take a few GB."""


class Muon(Optimizer):
    """Muon with the arguments of ``torch.optim.Muon``; for matrices, not for embeddings and norms.

    Parameters of one shape, type and device are orthogonalized in one batch. Updates are

        v <- momentum v + (1 - momentum) g
        u  = polar((1 - momentum) g + momentum v), with ``nesterov``; else polar(v)
        p <- (1 - lr weight_decay) p - lr adjust u

    where ``adjust`` is sqrt(max(1, m / n)) for ``original`` (and None) and 0.2 sqrt(max(m, n)) for
    ``match_rms_adamw``, which keeps the updates as large as AdamW's.

    DTensors, as FSDP2 makes them, may be sharded and replicated in any way over meshes of any
    dimensions; momenta are placed like their parameters. Each matrix has an owner among the ranks
    of its mesh, so that all have about equally much to do. Owners collect what is to be
    orthogonalized and send back what each rank needs. All ranks have to call `step` together. A
    rank without a gradient of a matrix counts as one with zeros, unless no rank has one. What goes
    to the owner has the parameter's type or ``communication_dtype``; what comes back has 16 bits:
    for float32 that is float16, in which iterations compute. An error on one rank ends the step on
    all of them; what the step has done by then stays, so continue from a checkpoint.

    Args:
        params: tensors (m, n) or groups of them, with any of the following as their own.
        lr: learning rate.
        weight_decay: decoupled, relative to lr.
        momentum, nesterov: of the gradient.
        ns_coefficients: of `polar`: a triple, as in torch, a list of triples, or a set's name.
        eps: accepted for torch's sake; `polar` needs none, whatever the norm is.
        ns_steps: iterations.
        adjust_lr_fn: None, "original" or "match_rms_adamw".
        method: of `polar`.
        backend: of `polar`.
        process_group: its ranks divide among them the matrices of parameters that are plain
            tensors, which have to be the same on all of them, with the same gradients, as under
            DDP. None: each rank orthogonalizes all of its plain tensors. Not kept by pickling.
        communication_dtype: torch.bfloat16 halves what float32 parameters send to owners, and
            rounds it to 8 bits, as torch.optim.Muon does on its own. None: nothing is rounded.
        timeout: seconds after which a rank that does not report counts as failed.

    Attributes:
        bytes_sent: what this rank has sent to others in the last step.

    Raises:
        ArgumentValueError, ArgumentTypeError: an argument or parameter that does not fit.
        RankError: in `step`; another rank failed.
    """

    bytes_sent = 0

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: Coefficients = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
        *,
        method: str = "gram",
        backend: str = "auto",
        process_group: ProcessGroup | None = None,
        communication_dtype: torch.dtype | None = None,
        timeout: float = 300.0,
    ) -> None:
        if communication_dtype not in (None, torch.bfloat16):
            got = f"it is {communication_dtype}"
            allowed = "None, torch.bfloat16"
            raise ArgumentValueError("communication_dtype", got, allowed, "None")
        if not timeout > 0:
            raise ArgumentValueError("timeout", f"it is {timeout}", "above 0", "timeout=300.0")
        if process_group is not None:
            _check_group(process_group)
        # Not options of groups: a process group cannot be part of a state dict.
        self._sharing = Sharing(process_group, communication_dtype, timeout)
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
            "method": method,
            "backend": backend,
        }
        _check(defaults)
        super().__init__(params, defaults)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds parameters with options of their own. Raises what the constructor raises."""
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        try:
            _check(group)
            for tensor in group["params"]:
                if tensor.dim() != 2:
                    got = f"there is a parameter of shape {tuple(tensor.shape)}"
                    fix = "give other parameters to torch.optim.AdamW"
                    raise ArgumentValueError("params", got, "matrices", fix)
        except (ArgumentValueError, ArgumentTypeError):
            self.param_groups.pop()
            raise

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        """One update of all parameters that have a gradient; returns what ``closure`` returns."""
        loss, failure = None, None
        shared = self._shared()
        before = {ranks: ranks.sent for ranks, _ in shared}
        try:
            if closure is not None:
                with torch.enable_grad():
                    loss = closure()
            self._step_alone()
        except Exception as reason:
            failure = reason  # the other ranks are waiting for a report
        for (ranks, device), matrices in shared.items():
            try:
                Step(ranks, matrices, device, self._sharing.travelling).run(failure)
            except Exception as reason:
                failure = failure or reason
        self.bytes_sent = sum(ranks.sent - sent for ranks, sent in before.items())
        if failure is not None:
            raise failure
        return loss

    def _step_alone(self) -> None:
        """Of the parameters that this rank shares with no other."""
        for number, group in enumerate(self.param_groups):
            rule = _Rule(self.state, group, number)
            alone = (p for p in group["params"] if not self._sharing.shares(p))
            for batch in _batches([p for p in alone if p.grad is not None]):
                gradients = [cast("Tensor", p.grad) for p in batch]
                if gradients[0].is_sparse:
                    got = "a gradient is sparse"
                    raise ArgumentTypeError("params", got, "dense gradients", "to_dense")
                rule.advance(batch, gradients)
                updates = rule.orthogonalized(torch.stack(rule.targets(batch, gradients)))
                rule.applied(batch, list(updates.unbind()), (batch[0].shape[0], batch[0].shape[1]))

    def _shared(self) -> Shared:
        rules = [_Rule(self.state, group, n) for n, group in enumerate(self.param_groups)]
        return self._sharing.sorted(
            (p, rule, rule.group["method"] == "rational")
            for rule in rules
            for p in rule.group["params"]
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("_sharing", Sharing())


class _Rule:
    """What a parameter group says is to be done; lists are of tensors of one type and device."""

    def __init__(self, state: Any, group: dict[str, Any], number: int) -> None:
        self._state, self.group, self.kind = state, group, f"group {number}"

    def advance(self, params: list[Tensor], grads: list[Tensor]) -> None:
        """Momenta, whose local parts ``grads`` are for."""
        _lists._foreach_lerp_(self._momenta(params), grads, 1 - self.group["momentum"])

    def targets(self, params: list[Tensor], grads: list[Tensor]) -> list[Tensor]:
        """What is to be orthogonalized."""
        momenta = self._momenta(params)
        if not self.group["nesterov"]:
            return momenta
        return list(_lists._foreach_lerp(grads, momenta, self.group["momentum"]))

    def orthogonalized(self, x: Tensor) -> Tensor:
        """Of (batch, m, n)."""
        steps, coefficients = self.group["ns_steps"], self.group["ns_coefficients"]
        return polar(x, self.group["method"], steps, coefficients, backend=self.group["backend"])

    def applied(self, parts: list[Tensor], updates: list[Tensor], shape: tuple[int, int]) -> None:
        """Weight decay and updates of parts of matrices of a shape."""
        rate = float(self.group["lr"])
        _lists._foreach_mul_(parts, 1 - rate * self.group["weight_decay"])
        scale = -rate * _adjustment(self.group["adjust_lr_fn"], shape)
        _lists._foreach_add_(parts, updates, alpha=scale)

    def _momenta(self, params: list[Tensor]) -> list[Tensor]:
        """Local parts of the momentum buffers, which are placed like their parameters."""
        found = list[Tensor]()
        for param in params:
            state = self._state[param]
            if "momentum_buffer" not in state:
                like = torch.zeros_like(param, memory_format=torch.preserve_format)
                state["momentum_buffer"] = like
            momentum: Any = state["momentum_buffer"]
            found.append(momentum.to_local() if is_dtensor(momentum) else momentum)
        return found


def _batches(params: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Parameters of one shape, type and device, in their order, up to a size."""
    groups: dict[tuple[object, ...], list[Tensor]] = {}
    for param in params:
        groups.setdefault((param.shape, param.dtype, param.device), []).append(param)
    for group in groups.values():
        most = max(1, _MOST_ELEMENTS // max(1, group[0].numel()))
        for first in range(0, len(group), most):
            yield group[first : first + most]


def _adjustment(name: str | None, shape: tuple[int, int]) -> float:
    rows, columns = shape
    if name == "match_rms_adamw":
        return 0.2 * math.sqrt(max(rows, columns))
    return math.sqrt(max(1, rows / columns))


def _check_group(group: object) -> None:
    from torch.distributed import ProcessGroup

    if not isinstance(group, ProcessGroup):
        got = "it is no process group, or one that this rank is not a member of"
        fix = "torch.distributed.group.WORLD, after init_process_group"
        raise ArgumentTypeError("process_group", got, "a group with this rank", fix)


def _check(options: dict[str, Any]) -> None:
    for name in ("lr", "weight_decay", "momentum", "eps"):
        value = options[name]
        if isinstance(value, Tensor) and value.numel() != 1:
            got = f"its shape is {tuple(value.shape)}"
            raise ArgumentValueError(name, got, "one number", f"{name}.item()")
        if not float(value) >= 0:
            raise ArgumentValueError(name, f"it is {float(value)}", "0 and above", f"{name}=...")
    if options["adjust_lr_fn"] not in _ADJUSTMENTS:
        allowed = ", ".join(map(repr, _ADJUSTMENTS))
        got = f"it is {options['adjust_lr_fn']!r}"
        raise ArgumentValueError("adjust_lr_fn", got, allowed, "adjust_lr_fn=None")
    resolve(options["ns_coefficients"], options["ns_steps"])
