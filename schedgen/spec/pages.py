"""Extents whose elements lie in pages, which a table lists: what a spec says of them.

A tensor of shape ``[pages, page, heads]`` means ``[batch, length, heads]`` to everything that comes
later, as packed ones do (`schedgen.spec.ragged`).
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from schedgen.errors import suggest
from schedgen.spec.schema import RaggedExtent, SpecFile
from schedgen.spec.values import Path, Scope
from schedgen.tensors import INTEGERS, Ragged


class Pages:
    """The pages of one ragged extent, if it has any."""

    def __init__(self, spec: SpecFile, scope: Scope, extent: str, entry: RaggedExtent) -> None:
        self.spec, self.scope, self.extent, self.entry = spec, scope, extent, entry
        self.path: Path = ("ragged", extent)

    @property
    def size(self) -> int:
        """Elements of a page; 0: there are no pages, whatever else is said."""
        value = self.scope.values.get(self.entry.page or "", 0)
        return int(value) if isinstance(value, int | Fraction) else 0

    def of(self, one: Ragged) -> Ragged:
        """``one`` with its pages."""
        if not self.size:
            return one
        table = self.entry.table or ""
        return replace(
            one,
            table=table,
            most_pages=self.spec.arguments[table].shape[1],
            pages=self.entry.pages or "",
            page=self.entry.page or "",
            page_size=self.size,
        )

    def check(self) -> bool:
        """Reports what is wrong; whether nothing is."""
        before = self.scope.errors
        self._check()
        return self.scope.errors == before

    def _check(self) -> None:
        keys = {key: getattr(self.entry, key) for key in ("table", "pages", "page")}
        given = [key for key, value in keys.items() if value is not None]
        if not given:
            return
        missing = [key for key in (*keys, "lengths") if getattr(self.entry, key) is None]
        if missing:
            message = f"there is '{given[0]}', but no '{missing[0]}'"
            fix = "name the table, the extents of pages and of a page, and the array of lengths"
            self._error("bad-ragged", message, (), fix=fix)
            return
        if self._check_size() and self.size and self._check_alone():
            self._check_table(self.entry.table or "")
            self._check_tensors(self.entry.pages or "", self.entry.page or "")

    def _check_size(self) -> bool:
        """Whether a parameter has the name of the extent of a page, and says how large it is."""
        page = self.entry.page or ""
        if page not in self.spec.parameters:
            message = f"no parameter '{page}' says how many elements a page has"
            fix = f"declare '{page}' under 'parameters', such as '{page}: {{default: 64}}'"
            self._error("unknown-parameter", message, ("page",), fix=fix)
            return False
        before = self.scope.errors
        self.scope.integer(page, (*self.path, "page"), at_least=0)
        return self.scope.errors == before

    def _check_alone(self) -> bool:
        """Whether no extent before it has the same table, or the same pages."""
        for extent, other in self.spec.ragged.items():
            if extent == self.extent:
                return True
            for key in ("table", "pages"):
                name = getattr(self.entry, key)
                if getattr(other, key) == name:
                    message = f"'{name}' already says where the elements of '{extent}' lie"
                    fix = f"name only '{extent}', or give '{self.extent}' tensors of its own"
                    self._error("bad-ragged", message, (key,), fix=fix)
                    return False
        return True

    def _check_table(self, name: str) -> None:
        argument = self.spec.arguments.get(name)
        if argument is None:
            fix = suggest(name, self.spec.arguments) or "declare it under 'arguments'"
            message = f"'{name}' is not an argument of this kernel"
            self._error("unknown-argument", message, ("table",), fix=fix)
            return
        dtype = self.scope.value(argument.dtype, ("arguments", name, "dtype"))
        if dtype is not None and dtype not in INTEGERS:
            message = f"'{name}' is {dtype}, but numbers of pages are integers"
            self._error("dtype-mismatch", message, ("table",), fix="make it i32")
        others = (a for n, a in self.spec.arguments.items() if n != name)
        taken = {extent for other in others for extent in other.shape} | {self.extent}
        shape = argument.shape
        if len(shape) != 2 or shape[0] != self.entry.of or shape[1] in taken:
            message = (
                f"'{name}' has shape [{', '.join(shape)}], not '{self.entry.of}' and an extent of "
                "its own"
            )
            fix = f"give it the shape [{self.entry.of}, most_pages]"
            self._error("bad-ragged", message, ("table",), fix=fix)

    def _check_tensors(self, pages: str, page: str) -> None:
        shapes = {name: argument.shape for name, argument in self.spec.arguments.items()}
        holders = [name for name, shape in shapes.items() if {pages, page} & {*shape}]
        if not holders:
            known = dict.fromkeys(extent for shape in shapes.values() for extent in shape)
            fix = suggest(pages, known) or "name an extent of the tensors that lie in pages"
            message = f"no argument has the extent '{pages}'"
            self._error("unknown-extent", message, ("pages",), fix=fix)
        stored = {store.to for store in self.spec.stores}
        for name, shape in shapes.items():
            if self.extent in shape and not {pages, page} & {*shape}:
                message = f"'{name}' has the extent '{self.extent}', whose elements lie in pages"
                fix = f"give '{name}' the extents '{pages}' and '{page}' instead"
                self._error("bad-ragged", message, ("pages",), fix=fix)
        for name in holders:
            shape = shapes[name]
            beside = [extent for extent in (self.entry.of, self.extent) if extent in shape]
            if pages not in shape or page not in shape:
                message = f"'{name}' has one of the extents '{pages}' and '{page}', not both"
                self._error("bad-ragged", message, ("pages",), fix="give it both, or none")
            elif beside:
                message = f"'{name}' lies in pages, and has the extent '{beside[0]}', too"
                self._error("bad-ragged", message, ("pages",), fix=f"leave '{beside[0]}' out of it")
            elif shape[-1] in (pages, page):
                message = f"'{shape[-1]}' is the last extent of '{name}', where no copy can begin"
                fix = f"let another extent be the last one of '{name}'"
                self._error("bad-ragged", message, ("page",), fix=fix)
            elif name in stored:
                message = f"'{name}' lies in pages, and is stored"
                fix = "store a tensor that does not: a table may list a page twice"
                self._error("bad-ragged", message, ("pages",), fix=fix)

    def _error(self, rule: str, message: str, keys: tuple[str, ...], *, fix: str) -> None:
        self.scope.error(rule, message, (*self.path, *keys), key=not keys, fix=fix)
