"""Links of the documents lead somewhere: to files that are there, to headings that they have; and
CONTRIBUTING names no module that is gone."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
LINK = re.compile(r"\]\(([^)\s]+)\)")
NAMED = re.compile(r"`([\w.*{},/-]+(?:\.(?:py|md|yaml|json|cpp|toml|txt)|/))`")
"""A file or a folder, the latter with a slash at its end."""
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub makes of the headings of ``page``."""
    text = FENCED.sub("", page.read_text("utf-8"))
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(FENCED.sub("", page.read_text("utf-8"))):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name) if name else page
        assert file.exists(), target
        if anchor and file.suffix == ".md":
            assert anchor in anchors(file), target


def test_the_index_lists_every_page() -> None:
    index = (ROOT / "docs" / "index.md").read_text("utf-8")
    for page in (ROOT / "docs").glob("*.md"):
        assert page.name == "index.md" or f"]({page.name})" in index


def test_the_index_lists_every_spec() -> None:
    """What `schedgen specs` prints there is compared by the slow tests."""
    index = (ROOT / "docs" / "index.md").read_text("utf-8")
    specs = [path.stem for path in (ROOT / "specs").glob("*.yaml")]
    assert [name for name in specs if f"\n{name} " not in index] == []
    assert specs


def test_contributing_names_what_is_there() -> None:
    """Names are relative to the repository, to `schedgen/`, or to a folder that the heading or the
    paragraph has named before."""
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    missing: list[str] = []
    for section in re.split(r"^(?=##)", text, flags=re.MULTILINE):
        heading, _, rest = section.partition("\n")
        rooms = [ROOT, ROOT / "schedgen", *(ROOT / name for name in NAMED.findall(heading))]
        for paragraph in rest.split("\n\n"):
            known = list(rooms)
            for name in NAMED.findall(paragraph):
                found = [path for room in known for path in room.glob(name.rstrip("/"))]
                known += [path for path in found if path.is_dir()]
                missing += [] if found else [f"{heading}: {name}"]
    assert not missing
