"""What functions of the kernels say of arguments that do not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from schedgen.errors import SchedgenError
from schedgen.kernels.errors import ArgumentTypeError, ArgumentValueError


def check(call: Callable[[], Any], kind: type[Exception], name: str) -> None:
    """``call`` is refused because of the argument ``name``, with what it is, may be, and a fix."""
    with pytest.raises(SchedgenError) as caught:
        call()
    error = caught.value
    assert isinstance(error, (ArgumentValueError, ArgumentTypeError))
    assert isinstance(error, kind)
    assert error.argument == name
    assert all((error.got, error.allowed, error.fix))
