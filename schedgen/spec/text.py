"""Text of a spec file, cut into lines, from which every diagnostic about it is made."""

import re
from dataclasses import dataclass

from schedgen.errors import Diagnostic, Location, SpecError

# Besides control characters: line breaks that editors and YAML disagree about (a lone CR, NEL,
# LS, PS), which would shift every line number; byte order marks in mid-text; characters that
# reverse what a reviewer sees ("trojan source"); surrogates, which no UTF-8 file can hold.
_FORBIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff]"
    "|\r(?!\n)"
)
_BYTE_ORDER_MARK = "\ufeff"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True)
class TextFile:
    """The lines of a text file, without their line breaks, and the name it is reported under."""

    file: str
    lines: tuple[str, ...]

    @classmethod
    def from_text(cls, text: str, file: str) -> "TextFile":
        """Split `text` at LF and CRLF, the only line breaks that a spec may contain."""
        return cls(file, tuple(line.removesuffix("\r") for line in text.split("\n")))

    def line(self, number: int) -> str:
        """Return the text of a line (from 1), or an empty string outside of the file."""
        return self.lines[number - 1] if 1 <= number <= len(self.lines) else ""

    def span(self, start: tuple[int, int], end: tuple[int, int] | None = None) -> Location:
        """Return the location between two (line, column) positions, both from 1.

        Without an end, or with an end on a later line, it runs to the end of the first line's
        content: a location never leaves its line.
        """
        line, column = start
        if end is not None and end[0] == line:
            return Location(line, column, max(1, end[1] - column))
        content = self.line(line)[column - 1 :].partition(" #")[0].rstrip()
        return Location(line, column, max(1, len(content)))

    def diagnostic(
        self, rule: str, message: str, at: Location | None, fix: str | None = None
    ) -> Diagnostic:
        """Return a diagnostic about this file, with the source line filled in."""
        source_line = None if at is None else self.line(at.line)
        return Diagnostic(rule, message, self.file, at, source_line, fix)

    def error(
        self, rule: str, message: str, at: Location | None, fix: str | None = None
    ) -> SpecError:
        """Return, for the caller to raise, an error that consists of one diagnostic."""
        return SpecError([self.diagnostic(rule, message, at, fix)])


def decode(data: bytes, file: str) -> str:
    """Decode UTF-8, with or without a byte order mark.

    Raises:
        SpecError: not UTF-8 (rule ``yaml-not-utf8``), naming the byte offset and the line.
    """
    try:
        return data.decode("utf-8").removeprefix(_BYTE_ORDER_MARK)
    except UnicodeDecodeError as error:
        offset = error.start
    line_start = data.rfind(b"\n", 0, offset) + 1
    at = Location(data.count(b"\n", 0, offset) + 1, len(data[line_start:offset].decode()) + 1)
    text = TextFile.from_text(data.decode("utf-8", errors="replace"), file)
    encoding = "UTF-16" if data.startswith(_UTF16_MARKS) else "another encoding"
    raise text.error(
        "yaml-not-utf8",
        f"byte 0x{data[offset]:02x} at offset {offset} is not UTF-8 (line {at.line})",
        at,
        f"the file seems to be in {encoding}; save it as UTF-8",
    )


def forbidden_character(text: str, start: int = 0) -> tuple[int, str] | None:
    """Return index and description of the first character a spec must not contain, if any."""
    match = _FORBIDDEN.search(text, start)
    if match is None:
        return None
    char = match[0]
    return match.start(), "NUL" if char == "\0" else f"U+{ord(char):04X}"


def check_characters(text: str, lines: TextFile) -> None:
    """Refuse characters that are invisible, that reorder text or that YAML has no place for.

    Raises:
        SpecError: with rule ``yaml-control-character`` and the first such character.
    """
    found = forbidden_character(text)
    if found is None:
        return
    index, name = found
    at = Location(text.count("\n", 0, index) + 1, index - text.rfind("\n", 0, index))
    fix = (
        "use LF or CRLF line breaks"
        if name == "U+000D"
        else "delete it (it may be invisible in an editor)"
    )
    raise lines.error(
        "yaml-control-character", f"the character {name} is not allowed in a spec", at, fix
    )
