"""PTX text to the tree of `schedgen.emulator.ptx.tree`.

`grammar.lark` says what PTX looks like, `build` makes `syntax` of it, `names` looks names up and
makes the tree, `check` tells whether the names fit together.
"""

from __future__ import annotations

from schedgen.emulator.ptx import syntax
from schedgen.emulator.ptx.check import check
from schedgen.emulator.ptx.errors import PtxError, Source
from schedgen.emulator.ptx.names import KernelBuilder, Scope, duplicate_name
from schedgen.emulator.ptx.storage import lay_out, variable
from schedgen.emulator.ptx.tree import Function, Kernel, Module, Symbol, Variable
from schedgen.errors import DiagnosticSink

_HEADER = {".version": "8.8", ".target": "sm_100a", ".address_size": "64"}
"""What every module has, with a value for the example in a message."""


def parse(text: str, name: str = "<ptx>") -> Module:
    """Return the module that a PTX text describes.

    Args:
        text: of a ``.ptx`` file.
        name: the file, for messages.

    Raises:
        PtxError: on the first syntax error, or with all mistakes of names and declarations. Which
            instructions exist and which architecture they need is not looked at.
    """
    source = Source(text, name)
    sink = DiagnosticSink()
    module = _ModuleBuilder(_parse_items(source), source, sink).build()
    if not sink:
        check(module, source, sink)
    if sink:
        raise PtxError(sink.diagnostics)
    return module


def _parse_items(source: Source) -> list[syntax.Item]:
    # Imported here because lark and the parser tables cost 70 ms that not every command needs.
    from lark import UnexpectedInput

    from schedgen.emulator.ptx.build import parse_items
    from schedgen.emulator.ptx.mistakes import explain
    from schedgen.emulator.ptx.operands import BadLiteral

    try:
        return parse_items(source.text)
    except UnexpectedInput as error:
        raise PtxError([explain(source, error)]) from None
    except BadLiteral as error:
        where = source.at("ptx-number", error.message, error.start, error.length, error.fix)
        raise PtxError([where]) from None


class _ModuleBuilder:
    def __init__(self, items: list[syntax.Item], source: Source, sink: DiagnosticSink) -> None:
        self._items = items
        self._source = source
        self._sink = sink
        self._scope = Scope(None)
        self._header: dict[str, str] = {}
        self._files: dict[int, str] = {}
        self._routines: dict[str, syntax.Routine] = {}
        self._variables: list[Variable] = []

    def build(self) -> Module:
        for item in self._items:
            self._item(item)
        self._complete_header()
        kernels: dict[str, Kernel] = {}
        functions: dict[str, Function] = {}
        for routine in self._routines.values():
            body = self._body(routine)
            if not routine.entry:
                functions[routine.name] = Function(
                    routine.name,
                    lay_out(routine.results),
                    lay_out(routine.parameters),
                    routine.line,
                    body,
                )
            elif body is not None:
                kernels[routine.name] = body
        major, minor = self._header[".version"].split(".")
        return Module(
            version=(int(major), int(minor)),
            target=self._header[".target"],
            address_size=int(self._header[".address_size"]),
            kernels=kernels,
            variables=tuple(self._variables),
            lines=tuple(self._source.lines),
            functions=functions,
        )

    def _item(self, item: syntax.Item) -> None:
        match item:
            case syntax.Header(directive, value, line):
                if directive in self._header:
                    message = f"a second {directive}: these are two modules in one text"
                    self._error("ptx-header", message, line, directive, "parse them one by one")
                self._header[directive] = value
            case syntax.File(index, path):
                self._files[index] = path
            case syntax.Variables(declared):
                for one in declared:
                    if self._scope.declare(one.name, Symbol) is None:
                        self._sink.error(duplicate_name(self._source, one.name, one.line))
                    self._variables.append(variable(one, one.name, self._source, self._sink))
            case syntax.Routine():
                self._routine(item)

    def _routine(self, routine: syntax.Routine) -> None:
        known = self._routines.get(routine.name)
        repeats_prototype = known is not None and not (known.body and routine.body)
        if self._scope.declare(routine.name, Symbol) is None and not repeats_prototype:
            self._sink.error(duplicate_name(self._source, routine.name, routine.line))
        if known is None or known.body is None:
            self._routines[routine.name] = routine

    def _body(self, routine: syntax.Routine) -> Kernel | None:
        if routine.body is None:
            return None
        builder = KernelBuilder(routine, self._scope, self._files, self._source, self._sink)
        return builder.build(routine.body)

    def _complete_header(self) -> None:
        missing = [directive for directive in _HEADER if directive not in self._header]
        if missing:
            message = f"the text has no {' and no '.join(missing)}"
            fix = "a PTX module starts with " + ", ".join(map(" ".join, _HEADER.items()))
            self._error("ptx-header", message, 1, self._source.lines[0], fix)
        self._header = _HEADER | self._header
        if (size := self._header[".address_size"]) != _HEADER[".address_size"]:
            message = f"addresses of {size} bits; kernels for sm_90a and sm_100a have 64"
            self._error("ptx-header", message, 1, ".address_size", "compile for 64 bits")

    def _error(self, rule: str, message: str, line: int, offending: str, fix: str) -> None:
        self._sink.error(self._source.diagnostic(rule, message, line, offending, fix))
