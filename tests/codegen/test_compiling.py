"""The process that compiles a generated file."""

from __future__ import annotations

import subprocess
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pytest

from schedgen.codegen import compiling
from schedgen.codegen.compiling import CompileError, CompilerEnded, compile_file

KERNEL = Path(__file__).parents[2] / "kernels" / "gemm_sm_90a_bf16.py"


@pytest.mark.parametrize(("status", "said"), [(-SIGKILL, "SIGKILL ended"), (1, "too many tiles")])
def test_a_signal_says_nothing_about_the_file(
    status: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, status, "", "Traceback\ntoo many tiles\n")

    monkeypatch.setattr(compiling.subprocess, "run", run)
    with pytest.raises(CompileError, match=said) as raised:
        compile_file(KERNEL, tmp_path, sms=132)
    assert isinstance(raised.value, CompilerEnded) == (status < 0)
