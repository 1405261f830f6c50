"""Machine code is kept on disk, by all that determines it, and is never needed there."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from schedgen.emulator.native.cached import cached
from schedgen.emulator.native.engine import Engine, engine
from schedgen.emulator.native.linked import linked

TEXT = """
define i64 @there() {
  %sum = add i64 THING, OTHER
  ret i64 %sum
}
define i64 @called(i64 %x) {
  %result = call i64 @absolute(i64 %x)
  ret i64 %result
}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SCHEDGEN_CACHE_DIR", str(tmp_path / "kept"))
    return tmp_path / "kept"


def _kept(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.exists() else []


def _sum(made: Engine, one: int, other: int) -> int:
    """What a function sees of two addresses."""
    absolute = ctypes.cast(ctypes.CDLL(None).labs, ctypes.c_void_p).value
    assert absolute is not None
    addresses = {"THING": one, "OTHER": other, "@absolute": absolute}
    found = made.compiled(TEXT, ("there", "called"), addresses)
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(found["called"])(-5) == 5
    return int(ctypes.CFUNCTYPE(ctypes.c_int64)(found["there"])())


def test_other_addresses_are_no_other_text(folder: Path) -> None:
    made = engine()
    assert made is not None
    assert _sum(made, 1 << 60, 7) == (1 << 60) + 7
    (file,) = _kept(folder)
    before = file.read_bytes(), file.stat().st_mtime_ns
    assert _sum(made, 5, 6) == 11
    assert _kept(folder) == [file]
    assert (file.read_bytes(), file.stat().st_mtime_ns) == before


def test_what_is_damaged_is_made_again(folder: Path) -> None:
    made = engine()
    assert made is not None
    assert _sum(made, 1, 2) == 3
    (file,) = _kept(folder)
    whole = file.read_bytes()
    for damaged in (b"", whole[: len(whole) // 2], whole[:40] + b"?" + whole[41:]):
        file.write_bytes(damaged)
        assert _sum(made, 3, 4) == 7
        assert file.read_bytes() == whole


def test_it_can_be_switched_off(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHEDGEN_NATIVE_CACHE", "0")
    made = engine()
    assert made is not None
    assert _sum(made, 1, 2) == 3
    assert not _kept(folder)


def test_without_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("SCHEDGEN_CACHE_DIR", str(tmp_path / "file" / "kept"))
    made = engine()
    assert made is not None
    assert _sum(made, 1, 2) == 3


def test_keys(folder: Path) -> None:
    assert cached("one", lambda: b"1") == b"1"
    assert cached("two", lambda: b"2") == b"2"
    assert cached("one", lambda: b"3") == b"1"
    assert len(_kept(folder)) == 2


def test_linked() -> None:
    text = linked("  %a = add i64 A, %A\n  call void @A(ptr @B.A)\n  ret void\n", {"A": 1, "@A": 2})
    assert text.splitlines()[-5:] == [
        "  %known.1 = load i64, ptr @address.A",
        "  %a = add i64 %known.1, %A",
        "  %known.2 = load ptr, ptr @function.A",
        "  call void %known.2(ptr @B.A)",
        "  ret void",
    ]
