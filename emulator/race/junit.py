"""A session as JUnit XML: a test for each kernel and grid, which fails with its findings."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from schedgen.emulator.race.programs import Ended
from schedgen.emulator.race.session import Ran, Session
from schedgen.emulator.race.text import finding_lines

_UNPRINTABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 has no place for."""


def text_of(session: Session, ended: Ended, program: str) -> str:
    """The session of `program` as XML."""
    suite = ElementTree.Element("testsuite", name="schedgen race")
    news = {one.fingerprint: one for one in session.errors}
    failures = 0
    for (kernel, grid), launches in _kernels(session).items():
        case = _case(suite, kernel, grid, sum(one.seconds for one in launches))
        own = dict.fromkeys(one.fingerprint for ran in launches for one in ran.found)
        found = [news[fingerprint] for fingerprint in own if fingerprint in news]
        if found:
            failures += 1
            text = "\n\n".join("\n".join(finding_lines(one)) for one in found)
            rules = ", ".join(sorted({one.rule for one in found}))
            _failure(case, f"{len(found)} findings ({rules})", text)
    case = _case(suite, program, "program", 0.0)
    if ended.status:
        failures += 1
        _failure(case, f"ended with status {ended.status}", ended.error)
    suite.set("tests", str(len(suite)))
    suite.set("failures", str(failures))
    suite.set("errors", "0")
    suite.set("time", f"{sum(ran.seconds for ran in session.launches):.3f}")
    ElementTree.indent(suite)
    return f"<?xml version='1.0' encoding='utf-8'?>\n{ElementTree.tostring(suite, 'unicode')}\n"


def _kernels(session: Session) -> dict[tuple[str, str], list[Ran]]:
    found: dict[tuple[str, str], list[Ran]] = {}
    for ran in session.launches:
        found.setdefault((ran.kernel, "x".join(map(str, ran.grid))), []).append(ran)
    return found


def _case(suite: ElementTree.Element, name: str, kind: str, seconds: float) -> ElementTree.Element:
    return ElementTree.SubElement(
        suite, "testcase", classname=_clean(name), name=_clean(kind), time=f"{seconds:.3f}"
    )


def _failure(case: ElementTree.Element, message: str, text: str) -> None:
    ElementTree.SubElement(case, "failure", message=_clean(message)).text = _clean(text)


def _clean(text: str) -> str:
    return _UNPRINTABLE.sub("?", text)
