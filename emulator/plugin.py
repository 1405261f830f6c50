"""A pytest plugin: kernels of CuTe DSL in the emulator, as a fixture.

Installed with schedgen, or ``pytest_plugins = ["schedgen.emulator.plugin"]`` in a conftest.py.

    def test_kernel(emulated_device):
        with emulated_device("sm_90a"):
            compiled = cute.compile(launch, a, b)
            compiled(a, b)          # a race is an error here
        torch.testing.assert_close(b, wanted)

Nothing of the emulator is imported before a test asks for the fixture, since every run of pytest
loads the plugin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from typing import Protocol

    from schedgen.emulator.emulation import EmulatedDevice, Races
    from schedgen.emulator.machine.policies import Policy
    from schedgen.emulator.machine.switches import Switches

    class EmulatedDeviceFactory(Protocol):
        """`schedgen.emulator.emulation.device`, which see."""

        def __call__(
            self,
            name: str = "sm_100a",
            *,
            policy: Policy | None = None,
            races: Races = "raise",
            switches: Switches | None = None,
            limit: int = ...,
            sms: int = 4,
            schedules: int | None = None,
        ) -> AbstractContextManager[EmulatedDevice]: ...


SCHEDULES = 3
"""Adversarial schedules of each launch where a test asks for no policy: operations are as late as
can be, at once, and anything between. Round-robin, which comes last, finds the least."""


@pytest.fixture
def emulated_device() -> EmulatedDeviceFactory:
    """A function that opens an emulated GPU as a context manager; see `EmulatedDeviceFactory`.

    Launches are executed under `SCHEDULES` adversarial schedules before the last one, unless the
    test says how many, asks for a policy, or switches the search for races off.
    """
    from schedgen.emulator.emulation import device

    def opened(
        name: str = "sm_100a", *, schedules: int | None = None, **options: Any
    ) -> AbstractContextManager[EmulatedDevice]:
        if schedules is None:
            plain = options.get("policy") is None and options.get("races") != "off"
            schedules = SCHEDULES if plain else 0
        return device(name, schedules=schedules, **options)

    return opened
