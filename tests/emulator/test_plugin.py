"""The fixture, in a pytest of its own."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

CONFTEST = 'pytest_plugins = ["schedgen.emulator.plugin"]\n'


@pytest.mark.medium
def test_fixture(pytester: pytest.Pytester) -> None:
    """Opens devices with the arguments that it is given, one at a time, and gives them back."""
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(
        """
        import pytest
        from schedgen.emulator.launch.errors import LaunchError

        def test_opens(emulated_device):
            with emulated_device("sm_90a", races="report") as gpu:
                assert gpu.reports == []
                assert gpu.emulator.races == "report"
            with emulated_device("sm_100a") as gpu:
                assert gpu.emulator.races == "raise"
                assert gpu.emulator.schedules == 3

        def test_schedules(emulated_device):
            from schedgen.emulator.machine.policies import RoundRobin
            for options, wanted in (
                ({"schedules": 5}, 5), ({"policy": RoundRobin()}, 0), ({"races": "off"}, 0),
            ):
                with emulated_device("sm_90a", **options) as gpu:
                    assert gpu.emulator.schedules == wanted

        def test_unknown(emulated_device):
            with pytest.raises(LaunchError, match="sm_42"):
                with emulated_device("sm_42"):
                    pass
        """
    )
    # Not in this process: pytester would forget modules that cannot be imported twice (CuTe DSL).
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=3)


@pytest.mark.medium
def test_imports_nothing_heavy(pytester: pytest.Pytester) -> None:
    """Every pytest run loads an installed plugin, also where nobody uses it."""
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(
        """
        import sys

        def test_lazy():
            heavy = ("torch", "numpy", "cutlass", "lark", "schedgen.emulator.emulation")
            assert not [name for name in heavy if name in sys.modules]
        """
    )
    # In a process of its own: here all of it is imported long since.
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)
