"""Triton, where there is none."""

from contextlib import ExitStack
from importlib.machinery import ModuleSpec
from typing import Any, cast

import pytest

from schedgen.emulator.launch import diversion_triton


@pytest.mark.parametrize("found", [None, ModuleSpec("triton", None)])
def test_a_folder_of_that_name_is_no_triton(
    monkeypatch: pytest.MonkeyPatch, found: ModuleSpec | None
) -> None:
    def find(_: str) -> ModuleSpec | None:
        return found

    monkeypatch.setattr(diversion_triton, "find_spec", find)
    with ExitStack() as stack:
        nobody = cast(Any, None)
        diversion_triton.divert_triton(stack, nobody, nobody, "nowhere")
