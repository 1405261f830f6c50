"""Storage sharing: the options that a buffer's ``alias`` gives each of its regions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from schedgen.errors import suggest
from schedgen.kernel import OWN_STORAGE, AliasOption, Region
from schedgen.spec.layout import Layout
from schedgen.spec.schema import Buffer
from schedgen.spec.values import Path

MAX_OPTIONS = 64
_KINDS = ("own", "front", "other", "auto", "none")
_SYNTAX = "write 'own S', 'front S', 'other S', 'auto S' or 'none', S being a buffer"


def bind_aliases(layout: Layout) -> None:
    """Give the regions of every buffer with an alias their options."""
    for name, buffer in layout.present.items():
        if buffer.alias is None:
            continue
        path = ("buffers", name, "alias")
        entries = _entries(layout, name, buffer)
        for region in layout.names[name]:
            options: list[AliasOption] = []
            for kind, host, _ in entries:
                options.extend(_options(layout, layout.regions[region], kind, host))
            unique = tuple(dict.fromkeys(options)) or (OWN_STORAGE,)
            if len(unique) > MAX_OPTIONS:
                message = f"'{region}' could be stored in {len(unique)} ways"
                fix = f"name up to {MAX_OPTIONS}: 'own S' is one, 'other S' two per other S"
                layout.scope.error("too-many-choices", message, path, fix=fix)
                break
            layout.regions[region] = replace(layout.regions[region], options=unique)


def _entries(layout: Layout, name: str, buffer: Buffer) -> list[tuple[str, str, Path]]:
    """Return kind, host and place of what an alias lists, without what does not apply."""
    path = ("buffers", name, "alias")
    texts = buffer.alias if isinstance(buffer.alias, list) else [buffer.alias or ""]
    found: list[tuple[str, str, Path]] = []
    for number, text in enumerate(texts):
        at = (*path, number) if isinstance(buffer.alias, list) else path
        entry = _entry(layout, text, at)
        if entry is None:
            continue
        kind, host = entry
        if kind == "none" or _can_host(layout, name, kind, host, at):
            found.append((kind, host, at))
    return found


def _entry(layout: Layout, text: str, at: Path) -> tuple[str, str] | None:
    """Return kind and host that ``text`` names, or None after reporting that it is no alias."""
    words = text.split()
    kind = layout.scope.values.get(words[0], words[0]) if words else ""
    if kind == "none" and len(words) == 1:
        return "none", ""
    if kind not in _KINDS or len(words) != 2:
        layout.scope.error("bad-alias", f"'{text}' is not an alias", at, fix=_SYNTAX)
        return None
    host = words[1]
    if host not in layout.spec.buffers:
        fix = suggest(host, layout.spec.buffers) or _SYNTAX
        layout.scope.error("unknown-buffer", f"'{host}' is not a buffer", at, fix=fix)
        return None
    return str(kind), host


def _can_host(layout: Layout, name: str, kind: str, host: str, at: Path) -> bool:
    """Whether ``host`` can lend its bytes to ``name``.

    An alias to a buffer that does not exist, or that is in another memory space, does not apply.
    """
    report = layout.scope.error
    if host == name or layout.spec.buffers[host].alias is not None:
        what = "itself" if host == name else f"'{host}', which has an alias itself"
        fix = f"alias '{name}' to a buffer with storage of its own"
        report("cyclic-alias", f"'{name}' would be stored in {what}", at, fix=fix)
        return False
    if host not in layout.present:
        return False
    tenant, owner = (layout.regions[layout.names[n][0]] for n in (name, host))
    if tenant.space is not owner.space:
        return False
    for member in (tenant, owner):
        if member.ring is not None:
            message = f"'{member.base}' shares the slots of ring '{member.ring}'"
            fix = "take it out of the ring, or remove the alias"
            report("alias-in-ring", message, at, fix=fix)
            return False
    if _replicated(layout, name) != _replicated(layout, host):
        message = f"'{name}' and '{host}' are not replicated alike"
        report("alias-shape", message, at, fix="give both the same 'per'")
        return False
    if kind == "other" and len(layout.names[host]) == 1:
        message = f"there is only one '{host}', and no other one"
        report("alias-shape", message, at, fix=f"write 'own {host}'")
        return False
    if tenant.rows > owner.rows or tenant.row_bytes > owner.row_bytes:
        message = (
            f"'{name}' ({tenant.rows} rows of {tenant.row_bytes} bytes) does not fit into "
            f"'{host}' ({owner.rows} rows of {owner.row_bytes} bytes)"
        )
        report("alias-too-large", message, at, fix="alias it to a larger buffer, or write 'none'")
        return False
    return True


def _replicated(layout: Layout, name: str) -> list[str]:
    """The dimensions along which there are several buffers of a name."""
    return [d for d in layout.present[name].per if layout.dimensions.count[d] > 1]


def _options(layout: Layout, tenant: Region, kind: str, host: str) -> Iterator[AliasOption]:
    """Yield the ways of storing ``tenant``.

    ``own S`` is the S of the same instance, ``front S`` that one's first bytes instead of its last
    ones; ``other S`` any other one, in this or the next version.
    """
    if kind == "none":
        yield OWN_STORAGE
        return
    position = layout.names[tenant.base].index(tenant.name)
    for number, name in enumerate(layout.names[host]):
        # At the end of the host's rows, so that small tenants can have the front.
        column = layout.regions[name].row_bytes - tenant.row_bytes
        if number == position and kind in ("own", "auto"):
            yield AliasOption(name, column, 0)
        elif number == position and kind == "front":
            yield AliasOption(name, 0, 0)
    for number, name in enumerate(layout.names[host]):
        column = layout.regions[name].row_bytes - tenant.row_bytes
        if number != position and kind in ("other", "auto"):
            yield from (AliasOption(name, column, skew) for skew in (0, 1))
    if kind == "auto":
        yield OWN_STORAGE
