"""The report in a real browser: it opens from a file, and pointer, wheel and keyboard work."""

from __future__ import annotations

import json
from typing import Any

import pytest

from schedgen.driver.checking import load_program
from schedgen.program.file import to_json
from schedgen.visualize.report.page import html_report
from tests.visualize.conftest import Opener
from tests.visualize.report.pages import attention, lit, neighbours, picture, place_of, span
from tests.visualize.schedules import solved

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


@pytest.mark.slow
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


@pytest.mark.slow
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
