"""Muon on several ranks: `sharded_cases` in processes of their own.

python -m pytest tests/kernels/newton_schulz/test_sharded.py -m gpu
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.skipif(
    not dist.is_available() or not dist.is_gloo_available(), reason="torch has no gloo"
)


@pytest.mark.medium
@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_ranks(ranks: int, tmp_path: Path) -> None:
    check(ranks, "cpu", tmp_path)


@pytest.mark.gpu
@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_with_gpus(ranks: int, tmp_path: Path) -> None:
    if torch.cuda.device_count() < ranks:
        pytest.skip(f"there are no {ranks} GPUs")
    check(ranks, "cuda", tmp_path)


def check(ranks: int, kind: str, folder: Path) -> None:
    """No case fails on any rank."""
    module = "tests.kernels.newton_schulz.sharded_cases"
    # Without this, gloo asks for the host's name, which need not have an address.
    environment = {"GLOO_SOCKET_IFNAME": "lo"} if sys.platform == "linux" else {}
    environment |= {"NCCL_NVLS_ENABLE": "0"}  # not every host lets containers use multicast
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", module, str(folder), str(rank), str(ranks), kind],
            cwd=ROOT,
            env=os.environ | environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(ranks)
    ]
    try:
        said = [process.communicate(timeout=240)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    for rank in range(ranks):
        file = folder / f"{rank}.json"
        assert file.exists(), said[rank]
        failed = {
            case: text for case, text in json.loads(file.read_text()).items() if text != "passed"
        }
        assert not failed, f"rank {rank}\n" + "\n".join(failed.values())
