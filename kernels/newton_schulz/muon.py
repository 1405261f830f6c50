"""The Muon optimizer: momentum, orthogonalized by `polar`, all matrices of a shape at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer, ParamsT

from schedgen.kernels.errors import ArgumentTypeError, ArgumentValueError
from schedgen.kernels.newton_schulz.coefficients import resolve
from schedgen.kernels.newton_schulz.polar_op import Coefficients, polar

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

    Raises:
        ArgumentValueError, ArgumentTypeError: an argument or parameter that does not fit.
    """

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
    ) -> None:
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
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            for batch in _batches(params):
                self._update(batch, group)
        return loss

    def _update(self, params: list[Tensor], group: dict[str, Any]) -> None:
        """Parameters of one shape, type and device."""
        gradients = [cast("Tensor", p.grad) for p in params]
        if gradients[0].is_sparse:
            raise ArgumentTypeError("params", "a gradient is sparse", "dense gradients", "to_dense")
        momenta = [self._momentum(p) for p in params]
        keep = 1 - group["momentum"]
        _lists._foreach_lerp_(momenta, gradients, keep)
        found = (
            _lists._foreach_lerp(gradients, momenta, group["momentum"])
            if group["nesterov"]
            else momenta
        )
        updates = polar(
            torch.stack(list(found)),
            group["method"],
            group["ns_steps"],
            group["ns_coefficients"],
            backend=group["backend"],
        )
        rate = float(group["lr"])
        _lists._foreach_mul_(params, 1 - rate * group["weight_decay"])
        scale = -rate * _adjustment(group["adjust_lr_fn"], params[0].shape)
        _lists._foreach_add_(params, list(updates.unbind()), alpha=scale)

    def _momentum(self, param: Tensor) -> Tensor:
        state = self.state[param]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(param, memory_format=torch.preserve_format)
        return state["momentum_buffer"]


def _batches(params: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Parameters of one shape, type and device, in their order, up to a size."""
    groups: dict[tuple[object, ...], list[Tensor]] = {}
    for param in params:
        groups.setdefault((param.shape, param.dtype, param.device), []).append(param)
    for group in groups.values():
        most = max(1, _MOST_ELEMENTS // max(1, group[0].numel()))
        for first in range(0, len(group), most):
            yield group[first : first + most]


def _adjustment(name: str | None, shape: torch.Size) -> float:
    rows, columns = shape
    if name == "match_rms_adamw":
        return 0.2 * math.sqrt(max(rows, columns))
    return math.sqrt(max(1, rows / columns))


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
