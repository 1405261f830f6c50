"""`schedgen tune`: the fastest schedule and sizes of tiles of a spec, as measured on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, cast

import typer

from schedgen.errors import SchedgenError

if TYPE_CHECKING:
    from schedgen.tuning.choosing import By, Choices
    from schedgen.tuning.measuring import Bench
    from schedgen.tuning.preparing import Make, Wanted
    from schedgen.tuning.records import Manifest, Record

DONE, REFUSED, BAD_INPUT = 0, 1, 2
BY = ("eager", "graphs")

Benches = Callable[["Manifest", Path], "Bench"]
Progress = Callable[[str], None]
Write = Callable[[Path, str], None]


@dataclass(frozen=True, slots=True)
class Files:
    """Where things are: ``prepare`` is to get candidates, ``run`` has them; ``record`` and
    ``refine`` were measured before, ``keep`` is to get what is measured now, and ``output`` the
    winner.
    """

    prepare: Path | None = None
    run: Path | None = None
    record: Path | None = None
    refine: Path | None = None
    keep: Path | None = None
    output: Path | None = None


@dataclass(frozen=True, slots=True)
class Options:
    """What is tuned, and how much work it may be.

    Attributes:
        tries: values of parameters; none: those that follow from the spec.
        shapes: extents as ``m=4096,n=4096``.
        candidates: at most, beside the spec's own settings.
        seconds: after which no candidate, and no round, is begun.
        rounds: of measurement.
        refinements: how often the neighbours of a winner are tried, where all is done in one go.
        by: times that decide, one of `BY`.
    """

    spec: str | None = None
    target: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    tries: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    shapes: Sequence[str] = ()
    candidates: int = 8
    seconds: float = 600.0
    seed: int = 0
    rounds: int = 7
    refinements: int = 1
    by: str = "eager"
    cache: bool = True


def run_tune(
    options: Options,
    files: Files,
    write: Write,
    progress: Progress,
    *,
    as_json: bool,
    benches: Benches | None = None,
    make: Make | None = None,
) -> int:
    """Prepares, measures and chooses, as far as ``files`` say, and prints what came of it.

    ``benches`` makes what times candidates, by default on the GPU that is there; ``make`` makes
    their kernels, by default with the compiler.

    Returns the exit status: 0 done, 1 no GPU, no candidate, or a kernel that does not run, 2 bad
    input.
    """
    from schedgen.codegen.compiling import CompileError
    from schedgen.codegen.errors import EmitError
    from schedgen.driver.found import Infeasible
    from schedgen.kernels.errors import DeviceError, LaunchError
    from schedgen.tuning.basics import NoCandidate

    refusals = (Infeasible, EmitError, CompileError, DeviceError, LaunchError, NoCandidate)
    try:
        _check(options, files)
        lines = _Tuning(options, files, write, progress, benches, make).lines(as_json)
    except refusals as error:
        typer.echo(str(error), err=True)
        return REFUSED
    except SchedgenError as error:
        typer.echo(str(error), err=True)
        return error.status
    except OSError as error:
        typer.echo(f"{error.filename}: {error.strerror}", err=True)
        return BAD_INPUT
    typer.echo("\n".join(lines))
    return DONE


def tries_of(texts: Sequence[str]) -> dict[str, list[str]]:
    """``tile_n=128,192`` as values of parameters. Raises SchedgenError."""
    found: dict[str, list[str]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        listed = [value.strip() for value in values.split(",")]
        if not equals or not name or not all(listed):
            raise SchedgenError(f"--try {text}: write NAME=V1,V2, such as tile_n=128,192,256")
        if name in found:
            raise SchedgenError(f"--try {name} is given twice; fix: write all values in one")
        found[name] = listed
    return found


def _check(options: Options, files: Files) -> None:
    """Options that contradict each other. Raises SchedgenError."""
    halves = {"--prepare": files.prepare, "--run": files.run, "--record": files.record}
    given = [name for name, path in halves.items() if path is not None]
    if len(given) > 1:
        raise SchedgenError(f"{given[0]} and {given[1]} are halves of one work; fix: give one")
    half = given[0] if given else ""
    if options.by not in BY:
        raise SchedgenError(f"--by {options.by}: it is one of {', '.join(BY)}")
    if files.refine is not None and half != "--prepare":
        raise SchedgenError("--refine says what to prepare next; fix: give --prepare DIR as well")
    if files.keep is not None and half in ("--prepare", "--record"):
        raise SchedgenError(f"--keep: {half} measures nothing; fix: leave it away")
    if files.output is not None and half == "--prepare":
        raise SchedgenError("-o: --prepare has no winner yet; fix: give it with --record")
    fixed = half if half in ("--run", "--record") else "--refine" if files.refine else ""
    if fixed:
        said = {"--try": options.tries, "--set": options.settings, "--shape": options.shapes}
        said["--target"] = options.target or ()
        for name, value in said.items():
            if value:
                raise SchedgenError(
                    f"{name}: {fixed} goes on with what was prepared, where this is decided; fix: "
                    f"leave it away, or begin again with --prepare DIR {name} ..."
                )
    elif options.spec is None:
        raise SchedgenError("there is no SPEC to tune; fix: give a path, or a name of 'specs'")


class _Tuning:
    def __init__(
        self,
        options: Options,
        files: Files,
        write: Write,
        progress: Progress,
        benches: Benches | None,
        make: Make | None,
    ) -> None:
        self.options, self.files = options, files
        self.write, self.progress, self.make = write, progress, make
        self._benches = benches

    def lines(self, as_json: bool) -> list[str]:
        """What is printed."""
        from schedgen.cli import tune_text as show
        from schedgen.tuning.records import read_manifest, read_record

        files = self.files
        if files.prepare is not None:
            manifest = self._prepare(self._wanted(), files.prepare)
            shown = show.manifest_data if as_json else show.manifest_lines
            return shown(manifest, files.prepare)
        if files.record is not None:
            record = read_record(files.record)
            self._same_spec(record.prepared, files.record)
        elif files.run is not None:
            manifest = read_manifest(files.run)
            self._same_spec(manifest, files.run)
            record = self._measure(manifest, files.run, files.keep or files.run / _record_name())
        else:
            record = self._all()
        choices = self._chosen(record)
        return (show.record_data if as_json else show.record_lines)(record, choices)

    def _all(self) -> Record:
        """All in one go; the record of the last refinement, which has the winner of the others."""
        from schedgen.tuning.choosing import choose
        from schedgen.tuning.refining import refined

        if self._benches is None:
            from schedgen.kernels.recording import check_device
            from schedgen.tuning.on_gpu import THEN

            check_device(THEN)  # before the work of solving
        wanted: Wanted | None = self._wanted()
        record: Record | None = None
        for number in range(self.options.refinements + 1):
            if wanted is None:
                break
            with TemporaryDirectory(prefix="schedgen-") as name:
                folder = Path(name)
                manifest = self._prepare(wanted, folder)
                if number and len(manifest.candidates) == 1:
                    break  # the winner has no neighbour
                record = self._measure(manifest, folder, folder / _record_name())
            best = choose(record, cast("By", self.options.by)).overall.winner
            wanted = refined(record, best, self.options.candidates, self.options.seconds)
        assert record is not None
        if self.files.keep is not None:
            from schedgen.tuning.records import record_text

            self.write(self.files.keep, record_text(record))
        return record

    def _wanted(self) -> Wanted:
        from schedgen.machine_file import read_machine
        from schedgen.spec.reader import read_spec
        from schedgen.tuning.basics import NoCandidate
        from schedgen.tuning.choosing import choose
        from schedgen.tuning.preparing import Wanted
        from schedgen.tuning.records import read_record
        from schedgen.tuning.refining import MOST, refined
        from schedgen.tuning.shapes import parsed
        from schedgen.tuning.space import axes

        options = self.options
        if self.files.refine is not None:
            record = read_record(self.files.refine)
            self._same_spec(record.prepared, self.files.refine)
            best = choose(record, cast("By", options.by)).overall.winner
            found = refined(record, best, options.candidates, options.seconds)
            if found is None:
                raise NoCandidate(
                    f"{self.files.refine}: nothing is left to try around {best}: no parameter is a "
                    f"number, or there were {MOST} rounds; fix: take it with --record, or begin "
                    "again with other values (--try)"
                )
            return found
        assert options.spec is not None
        spec = read_spec(options.spec)
        target = options.target or spec.file.targets[0]
        return Wanted(
            options.spec,
            target,
            options.settings,
            axes(spec, read_machine(target).name, options.settings, options.tries),
            [parsed(text) for text in options.shapes] or [{}],
            options.candidates,
            options.seconds,
            options.seed,
            kept=[{}],
        )

    def _prepare(self, wanted: Wanted, folder: Path) -> Manifest:
        from schedgen.machine_file import read_machine
        from schedgen.spec.reader import read_spec
        from schedgen.stored import Store
        from schedgen.tuning.preparing import compiled, prepare

        spec, machine = read_spec(wanted.spec), read_machine(wanted.target)
        with TemporaryDirectory(prefix="schedgen-") as own:
            store = Store() if self.options.cache else Store(Path(own))
            make = self.make or compiled
            return prepare(wanted, spec, machine, folder, store, self.progress, make)

    def _measure(self, manifest: Manifest, folder: Path, keep: Path) -> Record:
        from schedgen.tuning.measuring import measure

        if self._benches is None:
            from schedgen.tuning.on_gpu import bench

            made = bench(manifest, folder)
        else:
            made = self._benches(manifest, folder)
        options = self.options
        return measure(
            manifest, made, keep, self.write,
            rounds=options.rounds, seconds=options.seconds, progress=self.progress,
        )  # fmt: skip

    def _chosen(self, record: Record) -> Choices:
        """The winners, written if that is wanted."""
        from schedgen.driver.tuned import text
        from schedgen.tuning.choosing import choose
        from schedgen.tuning.winning import tuned

        choices = choose(record, cast("By", self.options.by))
        if self.files.output is not None:
            self.write(self.files.output, text(tuned(record, choices)))
        return choices

    def _same_spec(self, manifest: Manifest, path: Path) -> None:
        """SPEC need not be given where it is known, but must not be another one."""
        given = self.options.spec
        if given not in (None, manifest.spec, manifest.kernel):
            raise SchedgenError(
                f"{path}: this is of {manifest.spec}, not of {given}; fix: leave {given} away"
            )


def _record_name() -> str:
    from schedgen.tuning.records import RECORD

    return RECORD
