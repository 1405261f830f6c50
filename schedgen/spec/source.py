"""Reads spec files: YAML text whose every value knows its line and column.

Whatever is wrong with a file, from its absence to a bomb of aliases, is one `SpecError`.
"""

import hashlib
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

from schedgen.errors import Diagnostic, Location, SpecError
from schedgen.spec.text import TextFile, check_characters, decode
from schedgen.spec.yaml_nodes import Data, MappingNode, Node, ScalarNode, SequenceNode, compose

MAX_BYTES = 1 << 20
NAMED_BY = ("kernel", "plan")
"""Keys whose value is the name of a document."""
_BOUNDARY = re.compile(r"^---(?=(?:[ \t]+#[^\n]*|[ \t]*)\r?$)", re.MULTILINE)
_NOTHING = re.compile(r"(?:[ \t]*(?:#[^\n]*|\r)?(?:\n|\Z))*")


@dataclass(frozen=True, slots=True)
class Source:
    """A spec file as it was written.

    Attributes:
        file: the file as the user named it; with ``#`` and its name if it is one of several there.
        text: its content, without a byte order mark; empty lines for what is in front of it there.
        sha256: hexadecimal digest of its bytes.
        data: its values. Floats are their source text, since a binary float is not what the
            author wrote; only the words true and false (also True, TRUE ...) are booleans.
    """

    file: str
    text: str = field(repr=False)
    sha256: str
    data: dict[str, Data] = field(repr=False)
    _lines: TextFile = field(repr=False)
    _root: MappingNode = field(repr=False)

    def line(self, number: int) -> str:
        """Return the text of a line (from 1), or an empty string outside of the file."""
        return self._lines.line(number)

    def locate(self, path: Sequence[str | int], *, key: bool = False) -> Location:
        """Return where the value at `path` stands.

        Elements that match nothing are skipped (pydantic puts the tags of unions into its
        paths), so an incomplete or wrong path gives the deepest value that it leads to. A value
        of several lines is located by its first, an empty one by its key.

        Args:
            path: keys of mappings and indices of lists, from the top level down.
            key: locate the key of that value instead, if it has one.
        """
        key_node, node = self._walk(path)
        return key_node.at if key and key_node is not None else node.at

    def diagnostic(
        self,
        rule: str,
        message: str,
        path: Sequence[str | int],
        *,
        key: bool = False,
        offset: int | None = None,
        length: int | None = None,
        fix: str | None = None,
    ) -> Diagnostic:
        """Return a diagnostic about the value at `path`.

        Args:
            rule: stable kebab-case code.
            message: what is wrong, in one sentence without a full stop.
            path: as for `locate`.
            key: point at the key instead of the value.
            offset: index into the value's text, if only part of it is meant. It is located
                exactly where text and source agree character by character (one line, no
                escapes); elsewhere the diagnostic points at the whole value.
            length: number of characters from `offset`, by default 1.
            fix: what to do about it.
        """
        at = self.locate(path, key=key)
        if offset is not None and not key:
            at = self._part(path, offset, 1 if length is None else length) or at
        return self._lines.diagnostic(rule, message, at, fix)

    def _walk(self, path: Sequence[str | int]) -> tuple[ScalarNode | None, Node]:
        """Return the key, if it has one, and the node of the deepest value along `path`."""
        key: ScalarNode | None = None
        node: Node = self._root
        for element in path:
            if isinstance(node, MappingNode) and element in node.entries:
                key, node = node.entries[str(element)]
            elif isinstance(node, SequenceNode) and element in range(len(node.items)):
                key, node = None, node.items[int(element)]
        return key, node

    def _part(self, path: Sequence[str | int], offset: int, length: int) -> Location | None:
        """Return where part of a scalar's text stands, or None if that is not known."""
        _, node = self._walk(path)
        if not isinstance(node, ScalarNode):
            return None
        line, column = node.at.line, node.at.column
        raw = self.line(line)[column - 1 : column - 1 + node.at.length]
        if raw[:1] in ("'", '"') and raw[1:-1] == node.text:
            column += 1
        elif raw != node.text:
            return None
        first = min(max(offset, 0), len(node.text))  # at the end: something is missing there
        last = min(first + length, len(node.text))
        return Location(line, column + first, max(1, last - first))


def read_source(path: Path) -> Source:
    """Read and parse a spec file.

    Raises:
        SpecError: the file cannot be read, is no text, or is not what `parse_source` accepts.
    """
    file = str(path)
    data = _read(path)
    return _parse(decode(data, file), file, hashlib.sha256(data).hexdigest())


def read_sources(path: Path) -> tuple[Source, ...]:
    """Read and parse every spec of a file: several ones are YAML documents.

    Raises:
        SpecError: as `read_source`, or two have the same name, or one of several has none.
    """
    file, data = str(path), _read(path)
    text = decode(data, file)
    parts = _documents(text)
    if len(parts) < 2:
        text = parts[0] if parts else _BOUNDARY.sub("", text)
        return (_parse(text, file, hashlib.sha256(data).hexdigest()),)
    found: dict[str, Source] = {}
    for part in parts:
        source = _parse(part, file, hashlib.sha256(part.strip().encode()).hexdigest())
        key = next((key for key in NAMED_BY if key in source.data), None)
        if key is None:
            message = "this is one of several specs of a file, and has no name"
            fix = "give it a name: 'kernel: ...', or 'plan: ...'"
            raise SpecError([source.diagnostic("spec-without-name", message, (), fix=fix)])
        name = str(source.data[key])
        if name in found:
            message = f"another spec of this file is called '{name}', too"
            fix = "give them names of their own"
            raise SpecError([source.diagnostic("repeated-name", message, (key,), fix=fix)])
        found[name] = replace(source, file=f"{file}#{name}")
    return tuple(found.values())


def _documents(text: str) -> list[str]:
    """The documents of a YAML text, each behind as many empty lines as are in front of it; not
    those that have nothing but comments.
    """
    cuts = [0, *(match.start() for match in _BOUNDARY.finditer(text)), len(text)]
    parts: list[str] = []
    for first, last in pairwise(cuts):
        part = text[first:last]
        part = f"   {part[3:]}" if _BOUNDARY.match(part) else part
        if _NOTHING.fullmatch(part) is None:
            parts.append("\n" * text.count("\n", 0, first) + part)
    return parts


def parse_source(text: str, file: str) -> Source:
    """Parse the text of a spec; `file` is the name that diagnostics give it.

    Raises:
        SpecError: with everything that is wrong up to the first syntax error, if there is one.
    """
    data = text.encode("utf-8", errors="surrogatepass")
    if len(data) > MAX_BYTES:
        raise _too_large(file)
    return _parse(text.removeprefix("\ufeff"), file, hashlib.sha256(data).hexdigest())


def _parse(text: str, file: str, sha256: str) -> Source:
    lines = TextFile.from_text(text, file)
    check_characters(text, lines)
    root = compose(text, lines)
    return Source(file, text, sha256, root.data(), lines, root)


def _read(path: Path) -> bytes:
    """Return the bytes of a regular file of at most MAX_BYTES."""
    try:
        status = path.stat()  # before opening, which waits forever on a pipe
        if stat.S_ISDIR(status.st_mode):
            raise _file_error(path, "file-is-directory", "this is a directory, not a spec file")
        if not stat.S_ISREG(status.st_mode):
            raise _file_error(path, "file-not-regular", "this is a device or a pipe, not a file")
        if status.st_size > MAX_BYTES:
            raise _too_large(str(path))
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise _file_error(path, "file-not-found", "there is no such file") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or str(error)
        raise _file_error(path, "file-unreadable", f"cannot read this file: {reason}") from None
    if len(data) > MAX_BYTES:  # it grew, or its size is not known, as in /proc
        raise _too_large(str(path))
    return data


def _too_large(file: str) -> SpecError:
    message = f"the file is larger than {MAX_BYTES} bytes, the limit for a spec"
    fix = "use parameters and dimensions instead of repetition"
    return SpecError([Diagnostic("file-too-large", message, file, fix=fix)])


def _file_error(path: Path, rule: str, message: str) -> SpecError:
    fix = "give the path of a spec file that can be read"
    return SpecError([Diagnostic(rule, message, str(path), fix=fix)])
