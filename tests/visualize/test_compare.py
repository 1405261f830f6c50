"""Two schedules beside each other: the table has what differs and nothing else."""

from dataclasses import replace

from schedgen.visualize.compare import compared, compared_html, differences
from tests.visualize.schedules import solved


def test_a_schedule_does_not_differ_from_itself() -> None:
    schedule = solved("gemm", "b200")
    assert differences(schedule, schedule) == ()
    assert compared(schedule, schedule, ("x", "y")).endswith("no differences\n")


def test_one_start_time_is_one_difference() -> None:
    schedule = solved("fa4_unit", "abstract")
    op = schedule.ops[2]
    moved = replace(op, start=op.start + 1, slot=(op.slot + 1) % 4)
    other = replace(schedule, ops=tuple(moved if o is op else o for o in schedule.ops))
    (row,) = differences(schedule, other)
    assert row.what == op.id
    assert row.first.startswith(f"at {op.slot},")
    assert row.second.startswith(f"at {moved.slot},")
    text = compared(schedule, other, ("x.json", "y.json"))
    assert text.splitlines()[-1].split()[0] == op.id
    first, _, second = text.partition("B: y.json")
    assert first.split("\n\n", 1)[1] != second.split("\n\n", 1)[1]


def test_what_only_one_has_is_named() -> None:
    rows = {
        row.what: row for row in differences(solved("gemm", "b200"), solved("gemm_chain", "b200"))
    }
    assert (rows["kernel"].first, rows["kernel"].second) == ("gemm", "gemm_chain")
    assert rows["buffer S[0]"].first == "-"
    assert rows["buffer acc"].second == "-"


def test_text_keeps_its_width_and_its_scale() -> None:
    first, second = solved("attention_fwd", "b200"), solved("attention_fwd", "h200")
    text = compared(first, second, ("b.json", "h.json"), 120)
    assert max(map(len, text.splitlines())) <= 120
    periods = [line for line in text.splitlines() if line.startswith("steady state")]
    ratio = (len(periods[1]) - 14) / (len(periods[0]) - 14)
    assert abs(ratio - 2048 / 2064) < 0.05


def test_page_has_both_timelines_and_needs_nothing_else() -> None:
    first, second = solved("attention_fwd", "b200"), solved("attention_fwd", "h200")
    page = compared_html(first, second, ("b<1>.json", "h.json"))
    assert "A: b&lt;1&gt;.json: attention_fwd on b200" in page
    assert "<1>" not in page
    assert page.count("<tr>") == len(differences(first, second)) + 1
    links = page.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert not any(word in links for word in ("http", "src=", "<script", "@import"))
