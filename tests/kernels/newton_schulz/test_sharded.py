"""Muon on several ranks: `sharded_cases` in processes of their own, through gloo."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch.distributed as dist

ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.skipif(
    not dist.is_available() or not dist.is_gloo_available(), reason="torch has no gloo"
)


@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks(ranks: int, tmp_path: Path) -> None:
    module = "tests.kernels.newton_schulz.sharded_cases"
    # Without this, gloo asks for the host's name, which need not have an address.
    environment = {"GLOO_SOCKET_IFNAME": "lo"} if sys.platform == "linux" else {}
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", module, str(tmp_path), str(rank), str(ranks)],
            cwd=ROOT,
            env=os.environ | environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(ranks)
    ]
    try:
        said = [process.communicate(timeout=120)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    for rank in range(ranks):
        file = tmp_path / f"{rank}.json"
        assert file.exists(), said[rank]
        failed = {
            case: text for case, text in json.loads(file.read_text()).items() if text != "passed"
        }
        assert not failed, f"rank {rank}\n" + "\n".join(failed.values())
