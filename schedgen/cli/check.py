"""`schedgen check`: the proof of a program, whoever made it."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from schedgen.errors import SchedgenError

if TYPE_CHECKING:
    from schedgen.program.model import Program
    from schedgen.proof.prove import Proof

PROVEN, REFUTED, BAD_INPUT = 0, 1, 2


def read_text(path: Path) -> str:
    """The text of ``path``, of standard input for ``-``. Raises SchedgenError."""
    try:
        return sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise SchedgenError(
            f"{path}: this is not text; give a file written by 'schedgen solve'"
        ) from None
    except OSError as error:
        raise SchedgenError(f"{path}: {error.strerror}") from None


def run_check(path: Path, methods: list[str], as_json: bool, pace: tuple[str, ...] = ()) -> int:
    """Checks the schedule or program in ``path`` and prints what was found.

    Returns the exit status: 0 proven, 1 refuted with witness, 2 bad input.
    """
    from schedgen.driver.checking import load_program
    from schedgen.proof.prove import METHODS, check

    unknown = sorted(set(methods) - set(METHODS))
    if unknown:
        typer.echo(f"--method {unknown[0]}: use {', '.join(METHODS)}", err=True)
        return BAD_INPUT
    try:
        program = load_program(read_text(path), str(path), pace)
    except SchedgenError as error:
        typer.echo(str(error), err=True)
        return BAD_INPUT
    proof = check(program, tuple(methods) or METHODS)
    if as_json:
        typer.echo(json.dumps(_data(program, proof), indent=1, ensure_ascii=False))
    else:
        typer.echo("\n".join(_text(program, proof)))
    return PROVEN if proof.proven else REFUTED


def _data(program: Program, proof: Proof) -> dict[str, Any]:
    from schedgen.ordering.within import within_roles

    return {
        "kernel": program.kernel,
        "target": program.target,
        "proven": proof.proven,
        "proof": proof.summary(),
        "findings": [
            {"method": verdict.method, **asdict(finding)}
            for verdict in proof.verdicts
            for finding in verdict.findings
        ],
        "within_roles": [
            {
                **asdict(one),
                "reasons": [{**asdict(reason), "text": reason.text} for reason in one.reasons],
            }
            for one in within_roles(program)
        ],
    }


def _text(program: Program, proof: Proof) -> list[str]:
    lines = [f"{program.kernel} on {program.target}: {'proven' if proof.proven else 'REFUTED'}"]
    for verdict in proof.verdicts:
        found = "no objection" if verdict.proven else f"{len(verdict.findings)} findings"
        covered = verdict.bound or "all trip counts, tiles and latencies"
        lines.append(f"  {verdict.method:10} {verdict.seconds:6.2f} s  {found}; {covered}")
    if not proof.methods_agree:
        lines.append("  the methods do not agree; what one of them refutes is not proven")
    for verdict in proof.verdicts:
        for finding in verdict.findings:
            lines.append(f"{finding.claim.value} ({verdict.method}): {finding.text}")
            lines.extend(f"    {line}" for line in finding.witness)
    return lines
