"""Trees of Python text."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from schedgen.codegen.errors import EmitError
from schedgen.codegen.trees import parsed, read_tree


@pytest.mark.medium
def test_in_threads() -> None:
    """Of which Python 3.11 would refuse some now and then."""
    text = "\n".join(f"a{n} = [(1, ({n}, {{'b': c[d](e, f=lambda: 2)}}))]" for n in range(400))
    with ThreadPoolExecutor(8) as pool:
        trees = list(pool.map(parsed, [text] * 40))
    assert {len(tree.body) for tree in trees} == {400}


def test_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    with pytest.raises(EmitError, match=r"a\.py: No such file"):
        read_tree(path)
    path.write_text("a = (")
    with pytest.raises(EmitError, match=r"a\.py: this is not Python: '\(' was never closed"):
        read_tree(path)
    path.write_text("a = 1")
    data, tree = read_tree(path)
    assert (data, len(tree.body)) == (b"a = 1", 1)
