"""Findings of `schedgen race` as one page that needs nothing else."""

from __future__ import annotations

from html import escape
from importlib.resources import files

from schedgen.visualize.race.markup import Data, code, place_name, several, shortened, tag
from schedgen.visualize.race.timeline import timeline

_BADGES = {"error": "bad", "warning": "warn", "review": "warn"}


def html_page(data: Data, program: str) -> str:
    """The page.

    Args:
        data: the report as ``schedgen race --json`` prints it, findings with timelines.
        program: what was run.
    """
    findings = [one for one in data["findings"] if not one["known"]]
    parts = {
        "title": escape(f"schedgen race: {program}"),
        "style": _asset("schedgen.visualize.report", "report.css")
        + _asset("schedgen.visualize.race", "race.css"),
        "program": escape(program),
        "verdict": escape(_verdict(data, findings)),
        "nav": "".join(_link(one, at) for at, one in enumerate(findings, 1)),
        "main": "".join((
            *(_finding(one, at) for at, one in enumerate(findings, 1)),
            _ended(data),
            _gaps(data["synchronization"]),
            _launches(data["launches"]),
        )),
        "script": _asset("schedgen.visualize.race", "race.js"),
    }  # fmt: skip
    page = _asset("schedgen.visualize.race", "race.html")
    for name, part in parts.items():
        head, mark, tail = page.partition(f"<!--{name}-->")
        assert mark, f"the template has no place for {name}"
        page = head + part + tail
    return page


def _verdict(data: Data, findings: list[Data]) -> str:
    wrong = sum(one["severity"] == "error" for one in findings)
    known = sum(one["known"] for one in data["findings"])
    about = several(len(data["launches"]), "launch", "launches")
    kernels = several(len({one["kernel"] for one in data["launches"]}), "kernel")
    verdict = several(wrong, "finding") if wrong else "no finding"
    more = f", {several(known, 'known one')}" if known else ""
    return f"{about} of {kernels}: {verdict}{more}"


def _link(one: Data, at: int) -> str:
    places = ", ".join(place_name(place).rpartition("/")[2] for place in one["places"])
    return tag("a", escape(f"{at} {one['rule']}"), href=f"#f{at}", title=f"{one['title']} {places}")


def _finding(one: Data, at: int) -> str:
    badge = tag("span", escape(one["severity"]), class_=f"badge {_BADGES[one['severity']]}")
    title = escape(one["title"])
    heading = tag("h2", f"{badge} {escape(one['rule'])} ", tag("span", title), id=f"f{at}-title")
    drawn = one.get("timeline")
    return tag(
        "details",
        tag("summary", heading),
        _told(one),
        tag("div", *(_access(one, number) for number in range(len(one["places"]))), class_="pair"),
        *(() if drawn is None else (tag("h3", "Timeline"), timeline(drawn, at))),
        id=f"f{at}",
        class_="finding card",
        open=at == 1,
        aria_labelledby=f"f{at}-title",
    )


def _told(one: Data) -> str:
    """What is missing, and what is known besides."""
    needs = one["needs"]
    rows = [("Needs", tag("pre", escape(needs)) if "\n" in needs else escape(needs))]
    if one["repair"]:
        rows.append(("Usual repair", escape(one["repair"])))
    for barrier in one["barriers"]:
        where = tag("span", escape(f"{barrier['file']}:{barrier['line']}"), class_="mono")
        name = tag("b", escape(barrier["name"])) + ", " if barrier["name"] else ""
        rows.append(("Barrier", f"{name}initialized at {where} {code(barrier['text'])}"))
    if one["shown"]:
        rows.append(("Shows", escape(one["shown"])))
    if one["how"]:
        rows.append(("Simplest schedule", escape(one["how"])))
    if one["switch"]:
        rows.append(("Depends on", escape(f"switch {one['switch']}")))
    seen = f"{several(one['times'], 'time')} in {several(one['launches'], 'launch', 'launches')}"
    rows.append(("Seen", f"{seen} of {code(one['kernel'])}"))
    rows.append(("Id", code(one["fingerprint"])))
    return tag("dl", *(tag("dt", word) + tag("dd", text) for word, text in rows), class_="told")


def _access(one: Data, number: int) -> str:
    place = one["places"][number]
    drawn: Data = one.get("timeline") or {"sources": [], "codes": []}
    words = ("First", "Then") if len(one["places"]) == 2 else ("At",)
    word = words[min(number, len(words) - 1)]
    source: Data | None = drawn["sources"][number] if number < len(drawn["sources"]) else None
    ptx: Data | None = drawn["codes"][number] if number < len(drawn["codes"]) else None
    parts = [
        tag("h3", f"{word} ", tag("span", escape(place_name(place)), class_="mono")),
        tag("p", escape(place["who"])) if place["who"] else "",
        _lines(source) if source else tag("p", code(place["source"])) if place["source"] else "",
    ]
    if place["calls"]:
        calls = [
            tag("li", tag("span", escape(place_name(call)), class_="mono"), " ", code(call["text"]))
            for call in place["calls"]
        ]
        parts += [tag("p", "called at", class_="muted"), tag("ol", *calls, class_="calls")]
    if ptx:
        summary = tag(
            "summary", f"PTX {place['ptx_line']}: {code(shortened(place['instruction']))}"
        )
        parts.append(tag("details", summary, _lines(ptx)))
    elif place["instruction"]:
        parts.append(tag("p", f"PTX {place['ptx_line']}: {code(shortened(place['instruction']))}"))
    return tag("div", *parts, class_="access")


def _lines(snippet: Data) -> str:
    rows = (
        tag(
            "span",
            tag("i", str(number)),
            escape(text.expandtabs(4)) + "\n",
            class_="on" if number == snippet["line"] else None,
        )
        for number, text in snippet["lines"]
    )
    return tag("pre", *rows, class_="lines", tabindex="0")


def _ended(data: Data) -> str:
    if not data["error"] and not data["limited"]:
        return ""
    text = data["error"] or f"the program was ended by --limit {data['limited']}"
    return tag("section", tag("h2", "How the program ended"), tag("pre", escape(text)), id="ended")


def _gaps(data: Data) -> str:
    """Synchronization that was not executed."""
    if not data["unexecuted"]:
        return ""
    rows = [
        tag(
            "tr",
            tag("td", tag("span", escape(place_name(gap["place"])), class_="mono")),
            tag("td", code(gap["place"]["source"])),
            tag("td", code(gap["instruction"])),
            tag("td", f"{len(gap['ptx_lines'])} of {gap['of']}", class_="num"),
            tag("td", several(gap["launches"], "launch", "launches")),
        )
        for gap in data["unexecuted"]
    ]
    names = ("where", "source", "instruction", "not executed", "in")
    head = tag("tr", *(tag("th", name, scope="col") for name in names))
    table = tag("table", tag("thead", head), tag("tbody", *rows))
    note = tag("p", "No launch executed these under any schedule, so nothing is known of them.")
    title = tag("h2", "Never executed")
    scroll = tag("div", table, class_="card scroll", tabindex="0")
    return tag("section", title, note, scroll, id="unexecuted")


def _launches(launches: list[Data]) -> str:
    rows = [
        tag(
            "tr",
            tag("td", str(at), class_="num"),
            tag("td", code(one["kernel"])),
            tag("td", "x".join(map(str, one["grid"]))),
            tag("td", "x".join(map(str, one["block"]))),
            tag("td", str(one["warp_instructions"]), class_="num"),
            tag("td", f"{one['seconds']:.2f}", class_="num"),
            tag("td", "" if one["ended"] else "did not end"),
        )
        for at, one in enumerate(launches, 1)
    ]
    names = ("#", "kernel", "grid", "block", "warp instructions", "seconds", "")
    head = tag("tr", *(tag("th", name, scope="col") for name in names))
    table = tag("table", tag("thead", head), tag("tbody", *rows))
    scroll = tag("div", table, class_="card scroll", tabindex="0")
    return tag("section", tag("h2", "Launches"), scroll, id="launches")


def _asset(package: str, name: str) -> str:
    return (files(package) / "assets" / name).read_text(encoding="utf-8")
