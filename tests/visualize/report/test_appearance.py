"""The report can be read: in light and dark, on paper, in a narrow window."""

from __future__ import annotations

import pytest

from tests.visualize.conftest import Opener
from tests.visualize.report.pages import attention, picture


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read(opened: Opener, scheme: str) -> None:
    """Contrast of at least 4.5 to 1 (WCAG 2.2, 1.4.3) for labels and for text of the page."""
    page = opened(attention(), scheme)
    worst = page.evaluate(
        """(() => {
          const context = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
          const light = colour => {
            context.fillStyle = colour; context.fillRect(0, 0, 1, 1);
            const rgb = [...context.getImageData(0, 0, 1, 1).data].slice(0, 3).map(v => v / 255)
              .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
            return 0.2126 * rgb[0] + 0.7152 * rgb[1] + 0.0722 * rgb[2];
          };
          const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p);
            return (x + 0.05) / (y + 0.05); };
          const pairs = D.ops.flatMap(op => [0, 1, 2].map(i => colour(op.id, i)))
            .map(({fill, ink}) => ratio(fill, ink));
          for (const name of ["ink", "muted", "critical", "accent", "pred", "succ"])
            pairs.push(ratio(palette[name], palette.surface));
          return Math.min(...pairs);
        })()"""  # noqa: E501
    )
    assert worst >= 4.5


def test_the_theme_can_be_chosen(opened: Opener) -> None:
    page = opened(attention())
    light = picture(page)
    page.locator("#theme").click()
    page.locator("#theme").click()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert picture(page) != light
    page.locator("#theme").click()
    assert picture(page) == light


@pytest.mark.slow
def test_it_prints_in_light_colours_with_all_sections(opened: Opener) -> None:
    page = opened(attention(), "dark")
    page.locator('#period .cell[data-op="LV"]').first.click()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    assert page.evaluate("focused()") is None
    assert page.evaluate("viewport.followers.every(chart => chart.canvas.width > chart.width)")
    assert not page.locator("#inspector").is_visible()
    assert page.locator("#proofs table").is_visible()
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate("[document.documentElement.dataset.theme, chosen.op]") == ["dark", "LV"]
    assert len(page.pdf(prefer_css_page_size=True)) > 100_000


def test_a_narrow_window_has_the_details_below(opened: Opener) -> None:
    page = opened(attention(), width=820, height=900)
    assert not page.locator("#inspector").is_visible()
    page.locator("#period .cell").first.click()
    assert page.locator("#inspector").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
