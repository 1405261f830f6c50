"""Random tests draw the same cases every time: CI must not fail on a change that is not to blame.

``HYPOTHESIS_PROFILE=explore pytest ...`` looks for new ones.

Tests of medium length come behind fast ones, and slow tests last. With ``--slow-until`` slow tests
that have not begun by then are skipped: how fast a computer is decides how many of them run, not
whether the others do. They come file by file, in an order that ``--slow-seed`` decides, so that
runs that are cut off leave out other files each time.
"""

import hashlib
import os
import tempfile
import time

import pytest
from hypothesis import HealthCheck, settings

# A busy computer may stop for seconds while cases are drawn, which says nothing about these.
settings.register_profile(
    "repeat",
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("explore", max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeat"))

# No test reads what a user's commands kept, or leaves anything there; commands of one run share.
_KEPT = tempfile.TemporaryDirectory(prefix="schedgen-tests-")
os.environ["SCHEDGEN_CACHE_DIR"] = _KEPT.name


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--slow-until",
        type=float,
        metavar="SECONDS",
        help="begin no slow test after this time, in seconds since 1970 (date +%%s)",
    )
    parser.addoption(
        "--slow-seed", default="", metavar="TEXT", help="decides the order of files with slow tests"
    )


def _slow(item: pytest.Item) -> bool:
    return item.get_closest_marker("slow") is not None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Fast tests as they were collected, then those of medium length, then slow ones. Files of
    these stay together, as tests of one file share what is solved and compiled for them."""
    seed = config.getoption("--slow-seed")

    def place(item: pytest.Item) -> tuple[int, str]:
        if not _slow(item):
            return int(item.get_closest_marker("medium") is not None), ""
        file = item.nodeid.partition("::")[0]
        return 2, hashlib.sha256(f"{seed} {file}".encode()).hexdigest()

    items.sort(key=place)


def pytest_runtest_setup(item: pytest.Item) -> None:
    until = item.config.getoption("--slow-until")
    if until is not None and _slow(item) and time.time() > until:
        pytest.skip("the time for slow tests (--slow-until) was over")
