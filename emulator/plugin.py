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

from typing import TYPE_CHECKING

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
        ) -> AbstractContextManager[EmulatedDevice]: ...


@pytest.fixture
def emulated_device() -> EmulatedDeviceFactory:
    """A function that opens an emulated GPU as a context manager; see `EmulatedDeviceFactory`."""
    from schedgen.emulator.emulation import device

    return device
