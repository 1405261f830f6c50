"""What several tests go on with."""

from pathlib import Path

import pytest

from tests.schedgen.tuning.loop import Files, tune


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Candidates, as `schedgen tune --prepare` leaves them."""
    folder = tmp_path_factory.mktemp("tune") / "candidates"
    assert tune(Files(prepare=folder)) == 0
    return folder
