"""The report in a real browser: it opens from a file, and pointer, wheel and keyboard work."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from schedgen.checking import load_program
from schedgen.program.file import to_json
from schedgen.visualize.report import html_report
from tests.visualize.report.conftest import Opener
from tests.visualize.schedules import solved

if TYPE_CHECKING:
    from playwright.sync_api import Page


@cache
def attention() -> str:
    return html_report(solved("attention_fwd", "b200").to_json(), "attention")


def span(page: Page) -> tuple[float, float]:
    """What the time axis shows, in cycles."""
    low, high = page.evaluate("[viewport.from, viewport.to]")
    return low, high


def place_of(page: Page, operation: str, shown: int) -> tuple[float, float]:
    """Where a slice is on its role's track, in pixels of the window, scrolled into view."""
    page.locator("#timeline canvas").scroll_into_view_if_needed()
    page.wait_for_timeout(100)
    x, y = page.evaluate(
        """([op, shown]) => {
            const slice = sliceOf.get(`${op} ${shown}`), box = timelineChart.canvas.getBoundingClientRect();
            return [box.x + timelineChart.x((slice.start + slice.holdEnd) / 2), box.y + middleOf(slice)];
        }""",  # noqa: E501
        [operation, shown],
    )
    return x, y


def picture(page: Page) -> str:
    """The pixels of the timeline, in view."""
    page.locator("#timeline canvas").scroll_into_view_if_needed()
    return page.evaluate("timelineChart.paint(), timelineChart.canvas.toDataURL()")


def lit(page: Page, mark: str) -> set[str]:
    """Operations that the reservation table marks ``on``, ``pred`` or ``succ``."""
    found = page.eval_on_selector_all(
        f"#period .cell.{mark}", "cells => cells.map(cell => cell.dataset.op)"
    )
    return set(found)


def neighbours(operation: str) -> tuple[set[str], set[str]]:
    """Operations before and after ``operation``; what is both is shown as before."""
    edges = solved("attention_fwd", "b200").edges
    before = {e.src for e in edges if e.dst == operation} - {operation}
    return before, {e.dst for e in edges if e.src == operation} - {operation} - before


# -- pointer --------------------------------------------------------------------------------------


def test_it_opens_from_a_file_and_draws_everything(opened: Opener) -> None:
    page = opened(attention())
    schedule = solved("attention_fwd", "b200")
    assert page.locator("#figures dd").first.inner_text().replace(",", "") == str(
        schedule.ii_cycles
    )
    for op in schedule.body:
        assert page.locator(f'#period .cell[data-op="{op.id}"]').count() >= 1
        assert page.locator(f'#graph .cell[data-op="{op.id}"]').count() == 1
    assert page.locator("#operations tbody tr").count() == len(schedule.ops)
    picture(page)
    blank = page.evaluate(
        """timelineChart.canvas.getContext("2d")
           .getImageData(0, 0, timelineChart.canvas.width, timelineChart.canvas.height)
           .data.every(value => value === 0)"""
    )
    assert not blank


def test_pointing_at_a_slice_tells_all_about_it(opened: Opener) -> None:
    page = opened(attention())
    page.mouse.move(*place_of(page, "CR[0]", 1))
    page.wait_for_timeout(100)
    text = page.locator("#inspector").inner_text()
    assert text.startswith("CR[0]")
    op = next(op for op in solved("attention_fwd", "b200").ops if op.id == "CR[0]")
    for fact in (f"{op.slot:,} of", f"{op.latency} cycles", "slack", "sAlpha[0]", "wait", "arrive"):
        assert fact in text
    assert (lit(page, "pred"), lit(page, "succ")) == neighbours("CR[0]")
    page.mouse.move(5, 5)
    page.wait_for_timeout(100)
    assert lit(page, "on") == set()


def test_a_click_keeps_the_selection_and_escape_clears_it(opened: Opener) -> None:
    page = opened(attention())
    page.mouse.click(*place_of(page, "LDS[0]", 0))
    page.mouse.move(5, 5)
    assert lit(page, "on") == {"LDS[0]"}
    assert "LDS[0]" in page.locator("#say").inner_text()
    page.keyboard.press("Escape")
    assert lit(page, "on") == set()


def test_wheel_zooms_where_the_pointer_is(opened: Opener) -> None:
    page = opened(attention())
    x, y = place_of(page, "QK[0]", 1)
    page.mouse.move(x, y)
    before, scrolled = span(page), page.evaluate("scrollY")
    page.mouse.wheel(0, -200)
    page.wait_for_timeout(200)
    assert span(page) == before, "without the focus the wheel scrolls the page"
    assert page.evaluate("scrollY") < scrolled or scrolled == 0
    page.locator("#timeline canvas").focus()
    x, y = place_of(page, "QK[0]", 1)
    at = "x => timelineChart.time(x - timelineChart.canvas.getBoundingClientRect().x)"
    here = page.evaluate(at, x)
    page.mouse.move(x, y)
    page.mouse.wheel(0, -300)
    page.wait_for_timeout(200)
    low, high = span(page)
    assert high - low < 0.6 * (before[1] - before[0])
    assert abs(page.evaluate(at, x) - here) < 0.02 * (high - low)


def test_dragging_pans_timeline_and_memory_together(opened: Opener) -> None:
    page = opened(attention())
    page.evaluate("viewport.zoom(4)")
    x, y = place_of(page, "QK[0]", 1)
    box = page.locator("#timeline canvas").bounding_box()
    assert box is not None
    start = span(page)
    page.mouse.move(box["x"] + 700, y)
    page.mouse.down()
    page.mouse.move(box["x"] + 500, y, steps=4)
    page.mouse.up()
    moved = span(page)
    room = page.evaluate("timelineChart.room")
    assert moved[0] - start[0] == pytest.approx(200 * (start[1] - start[0]) / room, rel=0.02)
    assert page.locator("#inspector h2").count() == 0, "a drag selects nothing"
    axes = page.evaluate("viewport.followers.map(chart => chart.seen ? chart.time(400) : null)")
    assert len({round(time, 3) for time in axes if time is not None}) == 1
    assert x


# -- keyboard -------------------------------------------------------------------------------------


def test_keys_zoom_pan_and_show_all(opened: Opener) -> None:
    page = opened(attention())
    page.locator("#timeline canvas").focus()
    whole, first = span(page), picture(page)
    page.keyboard.press("+")
    closer = span(page)
    assert closer[1] - closer[0] < whole[1] - whole[0]
    assert picture(page) != first
    page.keyboard.press("ArrowRight")
    assert span(page)[0] > closer[0]
    page.keyboard.press("ArrowLeft")
    assert span(page) == pytest.approx(closer)
    page.keyboard.press("-")
    page.keyboard.press("Home")
    assert span(page) == whole
    assert picture(page) == first


def test_keys_walk_from_operation_to_operation(opened: Opener) -> None:
    page = opened(attention())
    page.locator("#timeline canvas").focus()
    page.keyboard.press(".")
    seen: list[str] = []
    for _ in range(3):
        page.keyboard.press("ArrowDown")
        seen.append(page.evaluate("ops.get(chosen.op).role"))
    assert len(set(seen)) == 3
    first = page.evaluate("chosen")
    page.keyboard.press(".")
    second = page.evaluate("chosen")
    assert first != second
    page.keyboard.press(",")
    assert page.evaluate("chosen") == first
    assert first["op"] in page.locator("#say").inner_text()


def test_every_control_is_reached_by_tab_and_shows_its_focus(opened: Opener) -> None:
    page = opened(attention())
    reached: list[tuple[str, str, bool]] = []
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate(
                """(() => { const node = document.activeElement; const style = getComputedStyle(node);
                const ring = style.outlineStyle !== "none" || node.matches(".cell");
                return [node.tagName, node.className.baseVal ?? node.className, ring]; })()"""  # noqa: E501
            )
        )
    assert all(ring for _, _, ring in reached), reached
    assert {"A", "BUTTON", "CANVAS", "g"} <= {tag for tag, _, _ in reached}


def test_arrow_keys_walk_through_the_reservation_table_and_the_graph(opened: Opener) -> None:
    page = opened(attention())
    for section in ("#period", "#graph"):
        page.locator(f"{section} .cell[tabindex='0']").focus()
        first = page.evaluate("document.activeElement.dataset.op")
        page.keyboard.press("ArrowRight")
        second = page.evaluate("document.activeElement.dataset.op")
        assert first != second
        assert page.locator("#inspector h2").inner_text() == second
        page.keyboard.press("Enter")
        assert page.evaluate("chosen.op") == second
        page.keyboard.press("Escape")
        assert page.evaluate("chosen") is None


def test_everything_to_operate_has_a_name(opened: Opener) -> None:
    page = opened(attention())
    nameless = page.evaluate(
        """[...document.querySelectorAll("button, select, input, canvas, [role=button], a")]
           .filter(node => !(node.getAttribute("aria-label") || node.textContent.trim()
                             || node.closest("label")))
           .map(node => node.outerHTML.slice(0, 80))"""
    )
    assert nameless == []
    assert page.locator("h1").count() == 1
    assert page.locator("main").count() == 1


# -- barriers and proofs --------------------------------------------------------------------------


def test_a_barrier_shows_who_signals_who_waits_and_what_it_proves(opened: Opener) -> None:
    page = opened(attention())
    program = load_program(solved("attention_fwd", "b200").to_json(), "attention")
    name = next(b.name for b in program.barriers if b.protects == ("LDS[0] uses S[0] after QK[0]",))
    page.locator("#barriers button.barrier", has_text=name).first.click()
    assert (lit(page, "pred"), lit(page, "succ")) == ({"QK[0]"}, {"LDS[0]"})
    row = page.locator("#barriers tbody tr").filter(
        has=page.locator(f'button.barrier[data-barrier="{name}"]')
    )
    promised = int(row.locator("button.plain").inner_text().split()[0])
    row.locator("button.plain").click()
    assert page.locator("#proofs tbody tr").count() == promised
    page.locator("#proofs tbody button.plain").first.click()
    steps = page.locator("#proofs .path li").all_inner_texts()
    assert any(f"barrier {name}" in step for step in steps)


def test_orders_can_be_filtered_and_shown_whole(opened: Opener) -> None:
    page = opened(attention())
    total = page.evaluate("D.proofs.orders.length")
    page.locator("#order-kind").select_option("all")
    page.locator("#proofs .tools button", has_text="Show all").click()
    assert page.locator("#proofs tbody tr").count() == total
    page.locator("#order-text").fill("sQ[1]")
    rows = page.locator("#proofs tbody tr").all_inner_texts()
    assert 0 < len(rows) < total
    assert all("sQ[1]" in row for row in rows)


# -- the picture follows the file -----------------------------------------------------------------


def test_one_start_time_changes_the_picture(opened: Opener) -> None:
    schedule = solved("attention_fwd", "b200")
    data: dict[str, Any] = json.loads(schedule.to_json())
    next(op for op in data["ops"] if op["id"] == "LV")["start"] += 8
    pages = [opened(attention()), opened(html_report(json.dumps(data), "attention"))]
    where = """ops => ops.map(op => document.querySelector(`#period .cell[data-op="${op}"] rect`)
               .getAttribute("x"))"""
    names = [op.id for op in schedule.body]
    before, after = (page.evaluate(where, names) for page in pages)
    assert [n for n, a, b in zip(names, before, after, strict=True) if a != b] == ["LV"]
    assert picture(pages[0]) != picture(pages[1])


def test_the_same_file_gives_the_same_picture(opened: Opener) -> None:
    first, second = opened(attention()), opened(attention())
    assert picture(first) == picture(second)


def test_a_program_file_opens_without_the_pictures_over_time(opened: Opener) -> None:
    program = load_program(solved("gemm", "b200").to_json(), "gemm")
    page = opened(html_report(to_json(program), "program"))
    assert "no start times" in page.locator("#figures").inner_text()
    assert not page.locator("#timeline").is_visible()
    assert page.locator("#barriers tbody tr").count() == len(program.barriers)
    page.locator("#barriers button.barrier").first.click()
    assert page.locator("#inspector h2").inner_text() == program.barriers[0].name
    page.locator("#barriers button.plain").first.click()
    assert page.locator("#proofs tbody tr").count() > 0


# -- light, dark, paper ---------------------------------------------------------------------------


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
