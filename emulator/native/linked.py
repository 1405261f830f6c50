"""What modules of LLVM IR know of the process that they are loaded into: addresses.

Text that says addresses is another one in every process, and what it is compiled to cannot be kept.
So modules have a variable for each address, which is set when they are loaded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_WORD = re.compile(r"(?<![\w.%@])@?[A-Za-z_]\w*")


def linked(text: str, addresses: Mapping[str, int]) -> str:
    """The text with a variable for each of the ``addresses``, and loads of these where their names
    are: ``NAME`` is an i64, ``@name`` a function. They may not be in operands of ``phi``, nor in
    constants."""
    found: list[str] = [f"@{variable(word)} = global i64 0" for word in addresses]
    if not addresses:
        return text
    count = 0
    for before in text.splitlines():
        line = before
        words = {word for word in _WORD.findall(line) if word in addresses}
        for word in sorted(words):
            count += 1
            value = f"%known.{count}"
            type_ = "ptr" if word.startswith("@") else "i64"
            found.append(f"  {value} = load {type_}, ptr @{variable(word)}")
            line = re.sub(rf"(?<![\w.%@]){word}(?!\w)", value, line)
        found.append(line)
    return "\n".join(found) + "\n"


def variable(word: str) -> str:
    """The variable that has the address."""
    return f"function.{word[1:]}" if word.startswith("@") else f"address.{word}"
