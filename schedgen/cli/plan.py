"""`schedgen plan`: what a plan of several kernels calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from schedgen.cli.common import fail, print_json
from schedgen.errors import SchedgenError

if TYPE_CHECKING:
    from schedgen.driver.plan_model import BoundCall, BoundPlan
    from schedgen.machine import Machine


def run_plan(spec: str, target: str | None, settings: dict[str, str], as_json: bool) -> None:
    """Prints the calls of the plan ``spec``. Ends the command with 2 on bad input."""
    from schedgen.driver.plan import bind_plan
    from schedgen.machine_file import read_machine
    from schedgen.spec.plan import read_plan

    try:
        read = read_plan(spec)
        machine = read_machine(target or read.file.targets[0])
        bound = bind_plan(read, machine, settings)
        shipped = [_shipped(call, machine) for call in bound.calls]
    except SchedgenError as error:
        fail(str(error), error.status)
    if as_json:
        print_json(_data(bound, shipped))
        return
    arguments, results = (" ".join(one.name for one in x) for x in (bound.inputs, bound.results))
    typer.echo(f"{bound.name} for {bound.machine}: {arguments} -> {results}")
    width = max(len(call.spec) for call in bound.calls)
    for number, (call, is_shipped) in enumerate(zip(bound.calls, shipped, strict=True), 1):
        settings_ = ", ".join(f"{name}={value}" for name, value in call.settings)
        note = "shipped" if is_shipped else "to be solved"
        typer.echo(f"  {number}  {call.spec:{width}}  {note}{f'; {settings_}' * bool(settings_)}")
        typer.echo(f"     {' ' * width}  {_taken(call)} -> {_named(call.results)}")


def _shipped(call: BoundCall, machine: Machine) -> bool:
    """Whether the schedule of what is called is known."""
    from schedgen.driver import lock_file
    from schedgen.spec.reader import read_spec

    return lock_file.same(read_spec(call.spec), machine, dict(call.settings)) is not None


def _taken(call: BoundCall) -> str:
    numbers = ((name, str(number)) for name, number in call.numbers)
    sizes = ((extent, str(size)) for extent, size in call.sizes)
    return _named((*call.tensors, *numbers, *sizes))


def _named(pairs: tuple[tuple[str, str], ...]) -> str:
    return " ".join(name if name == value else f"{name}={value}" for name, value in pairs)


def _data(bound: BoundPlan, shipped: list[bool]) -> dict[str, Any]:
    calls = [
        {
            "kernel": call.spec,
            "settings": dict(call.settings),
            "shipped": is_shipped,
            "tensors": dict(call.tensors),
            "numbers": {
                name: {"of": number.name, "factor": float(number.factor)}
                for name, number in call.numbers
            },
            "extents": dict(call.sizes),
            "results": dict(call.results),
        }
        for call, is_shipped in zip(bound.calls, shipped, strict=True)
    ]
    arguments, results = (
        [{"name": one.name, "shape": list(one.shape), "dtype": one.dtype} for one in side]
        for side in (bound.inputs, bound.results)
    )
    return {
        "plan": bound.name,
        "target": bound.machine,
        "arguments": arguments,
        "results": results,
        "calls": calls,
    }
