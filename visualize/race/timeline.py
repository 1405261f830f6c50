"""Steps of two warps around a finding, side by side in the order of the schedule."""

from __future__ import annotations

from html import escape

from schedgen.visualize.race.markup import Data, code, place_name, several, shortened, tag

_MARKS = {"first": "first access", "then": "second access", "at": "here"}


def timeline(data: Data, number: int) -> str:
    """A table with a column for each agent and one for others that use their barriers."""
    rows = data["rows"]
    if not rows:
        return ""
    others = any(row["column"] == 1 for row in rows)
    itself = any(row["column"] == 1 and row["who"] in data["agents"][0] for row in rows)
    between = "the warp itself, others at its barriers" if itself else "others, at their barriers"
    agents = [data["agents"][0], between if others else "", data["agents"][1]]
    columns = [at for at, name in enumerate(agents) if name]
    head = tag(
        "tr",
        tag("th", "#", scope="col", class_="num"),
        *(tag("th", escape(agents[at]), scope="col") for at in columns),
        tag("th", "where", scope="col"),
    )
    body: list[str] = []
    at = 0
    for row in rows:
        at += row["left_out"]
        if row["left_out"]:
            text = f"{several(row['left_out'], 'step')} of these warps left out"
            body.append(tag("tr", tag("td", text, colspan=str(len(columns) + 2)), class_="gap"))
        body.append(_row(row, at, columns))
        at += row["times"]
    caption = f"In the order of the schedule: {data['schedule']}."
    return tag(
        "div",
        tag(
            "table",
            tag("caption", escape(caption)),
            tag("thead", head),
            tag("tbody", *body),
            class_="steps",
        ),
        class_="scroll",
        tabindex="0",
        role="region",
        aria_label=f"Timeline of finding {number}",
    )


def _row(row: Data, at: int, columns: list[int]) -> str:
    mark = row["mark"]
    words = [tag("span", escape(_MARKS[mark]), class_="badge bad")] if mark else []
    words += [_what(row)]
    if row["times"] > 1:
        words.append(tag("span", f"× {row['times']}", class_="muted"))
    if row["column"] == 1:
        words.insert(0, tag("span", escape(row["who"]) + ":", class_="muted"))
    cells = [
        tag("td", " ".join(words) if column == row["column"] else "", class_="lane")
        for column in columns
    ]
    names = [name for name, held in (("mark", mark), ("waits", row["waits"])) if held]
    return tag(
        "tr",
        tag("td", str(at), class_="num"),
        *cells,
        tag("td", _where(row["place"])),
        class_=" ".join(names) or None,
        data_barrier=row["barrier"] or None,
    )


def _what(row: Data) -> str:
    """In words, the barrier as a button that shows where else it is used."""
    name, text = row["barrier"], row["what"]
    if not name or name not in text:
        return escape(text)
    before, _, behind = text.partition(name)
    button = tag(
        "button", escape(name), type="button", class_="barrier", data_barrier=name,
        aria_pressed="false",
    )  # fmt: skip
    return f"{escape(before)}{button}{escape(behind)}"


def _where(place: Data) -> str:
    text = tag("span", escape(place_name(place)), class_="mono")
    if place["source"]:
        text += f" {code(place['source'])}"
    if place["instruction"]:
        ptx = tag(
            "span",
            f"PTX {place['ptx_line']}: ",
            code(shortened(place["instruction"])),
            class_="muted",
        )
        text += f"<br>{ptx}"
    return text
