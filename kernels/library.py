"""Which generated files there are, and how functions become operators of torch."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import torch

from schedgen.codegen.facts import file_name
from schedgen.kernels.errors import DeviceError, GradientError
from schedgen.kernels.launcher import Launcher, architecture
from schedgen.kernels.launcher import launcher as _launcher

FOLDER = Path(__file__).parent

_operators = torch.library.Library("schedgen", "DEF")


@cache
def launcher(device: torch.device, spec: str, **settings: str) -> Launcher:
    """The shipped kernel of ``spec`` with these settings, loaded for ``device``.

    Raises DeviceError if there is none for its architecture, and what `launcher.launcher` raises.
    """
    path = FOLDER / file_name(spec, architecture(device), settings)
    if not path.exists():
        raise DeviceError(f"there is no {path.name} among the shipped kernels")
    return _launcher(path, device)


def define(schema: str, run: Callable[..., Any], fake: Callable[..., Any]) -> None:
    """Registers the operator ``schedgen::...``: ``run`` for tensors, ``fake`` for their shapes.

    ``run`` is called for every device, to say what is wrong with it.
    """
    name = schema.partition("(")[0]
    _operators.define(
        schema, tags=(torch.Tag.pt2_compliant_tag, torch.Tag.needs_fixed_stride_order)
    )
    _operators.impl(name, run, "CompositeExplicitAutograd")
    torch.library.register_fake(f"schedgen::{name}", fake, lib=_operators)

    if "!" in schema:  # torch derives nothing through what is overwritten
        return

    def backward(ctx: object, *gradients: object) -> NoReturn:
        del ctx, gradients
        raise GradientError(
            f"schedgen::{name} has no backward pass; fix: call it under torch.no_grad(), or "
            "detach its arguments"
        )

    torch.library.register_autograd(f"schedgen::{name}", backward, lib=_operators)
