"""Shipped specs with the settings that make another kernel of them, for tables of all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from schedgen.spec.reader import read_spec, shipped_specs

Settings = Mapping[str, str]

KN, SYMMETRIC = {"b_layout": "kn"}, {"symmetric": "true"}
MORE: Mapping[str, Mapping[str, Settings]] = {
    "gemm": {"kn": KN},
    "gemm_symmetric": {"kn": KN},
    "gemm_parts": {"kn": KN, "symmetric": SYMMETRIC},
    "gemm_sum": {"symmetric": SYMMETRIC},
}
"""Beside the defaults: what a row calls it, and the settings."""


def variants() -> Iterator[tuple[str, str, str, Settings]]:
    """Name in tables, spec, target, settings."""
    for name in shipped_specs():
        for word, settings in {"": {}, **MORE.get(name, {})}.items():
            for target in read_spec(name).file.targets:
                yield f"{name} {word}".strip(), name, target, settings


def options(settings: Settings) -> list[str]:
    """The same for a command line."""
    return [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
