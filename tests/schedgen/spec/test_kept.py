"""Iterations that output tiles leave out have nothing that a mask keeps."""

from __future__ import annotations

from pathlib import Path

import pytest

from schedgen.errors import SpecError
from schedgen.spec.bind import bind
from schedgen.spec.reader import parse_spec

SPECS = Path(__file__).parents[3] / "specs"
TEXT = (SPECS / "attention_fwd.yaml").read_text("utf-8")
LAST = "ceil(((tile_row + 1) * tiles * rows + seq_k - seq_q) / keys)"
KEEP = '(not causal or column <= row + seq_k - seq_q)"'
WINDOW = KEEP[:-1] + ' and column > row + seq_k - seq_q - window"'


def bound(old: str, new: str, first: str = "", keep: str = KEEP, **settings: str) -> None:
    text = TEXT.replace(old, new).replace(KEEP, keep)
    text = text.replace(
        "  one_tile:", f"  tile_first: {first}\n  one_tile:" if first else "  one_tile:"
    )
    text = text.replace("  seq_k: {default", "  window: {default: 1000}\n  seq_k: {default")
    spec = parse_spec(text, "changed.yaml")
    bind(spec.source, spec.file, "h200", {"causal": "true", **settings})


@pytest.mark.medium
@pytest.mark.parametrize("more", ["", " + 1", " + 300"])
def test_what_is_kept_is_computed(more: str) -> None:
    """More iterations than are needed are no mistake."""
    bound("/ keys)", f"/ keys{more})")
    first = "(tile_row * tiles * rows + seq_k - seq_q - window + 1) // keys"
    bound(LAST, LAST, first, WINDOW)
    bound(LAST, LAST, f"({first}) - 1", WINDOW)
    bound(LAST, LAST, first, WINDOW, causal="false")
    # of a number that is given when the kernel runs
    bound(LAST, LAST, first.replace("window", "scale"), WINDOW.replace("window", "scale"))


@pytest.mark.parametrize(
    ("last", "first", "keep", "wrong"),
    [
        # one element too few, at the end and at the beginning
        (LAST.replace("rows +", "rows - 1 +"), "", KEEP, "keeps column 640 of row 255"),
        (
            LAST,
            "(tile_row * tiles * rows + seq_k - seq_q - window + 2) // keys",
            WINDOW,
            "keeps column .* of row .* where seq_q = .*, seq_k = .*, but the tile of that row has",
        ),
        (
            LAST,
            "(tile_row * tiles * rows + seq_k - seq_q - scale + 2) // keys",
            WINDOW.replace("window", "scale"),
            "keeps column .* of row .* where seq_q = .*, scale = .*, but the tile of that row has",
        ),
        (LAST, "tile_row // 8", KEEP, "keeps column 0 of row"),
        (LAST.replace("tile_row + 1", "tile_row"), "", KEEP, "has only columns 0 to "),
        (LAST, "", KEEP.replace("column <=", "column < scale or column <="), "scale = 1000"),
    ],
)
def test_what_is_kept_is_left_out(last: str, first: str, keep: str, wrong: str) -> None:
    with pytest.raises(SpecError, match=wrong) as found:
        bound(LAST, last, first, keep)
    (one,) = found.value.diagnostics
    assert one.rule == "bad-trips"
    assert ("begin no later" if first else "end behind") in str(one)


def test_masks_that_say_nothing_of_rows() -> None:
    """A loop may end early, whatever a mask of its last iteration says."""
    bound(LAST, "tile_row + 1", keep='column >= 0"')
