"""Programs of generated files: found again without solving where their schedules are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from schedgen import read_machine, read_spec
from schedgen.codegen.facts import read_facts
from schedgen.driver import restoring
from schedgen.driver.deriving import Underivable, derived
from schedgen.driver.emitting import emission, written
from schedgen.driver.proved import QUICK
from schedgen.driver.variations import STEP, with_registers
from schedgen.program.digest import program_digest
from schedgen.stored import Store


@pytest.mark.medium
def test_a_kept_schedule_is_not_solved_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the file has all parameters, and it was emitted with none given."""
    store = Store(tmp_path / "store")
    spec, machine = read_spec("gemm_sum"), read_machine("h200")
    settings = {"tile_n": "64"}  # the one that is shipped is known
    made = emission(spec, machine, settings, methods=QUICK, store=store)
    path = tmp_path / made.name
    path.write_text(made.text, "utf-8")
    facts = read_facts(path)

    def solve(*_: object, **__: object) -> None:
        raise AssertionError("it is solved again")

    with monkeypatch.context() as patch:
        patch.setattr(restoring, "solve", solve)
        program, kernel = derived(facts, None, str(path), store=store)
        assert program_digest(program) == facts.program_sha256
        assert kernel.parameters == facts.settings
        with pytest.raises(AssertionError, match="solved again"):
            derived(facts, None, str(path), store=Store(tmp_path / "other"))
    assert derived(facts, None, str(path), store=Store(tmp_path / "other"))[0] == program


@pytest.mark.medium
def test_a_kept_schedule_of_another_program_is_none(tmp_path: Path) -> None:
    """The digest decides, not what is kept under its name."""
    store = Store(tmp_path / "store")
    spec, machine = read_spec("gemm_sum"), read_machine("h200")
    made = emission(spec, machine, {}, methods=QUICK)
    text = made.text.replace(program_digest(made.proven.program), "0" * 64)
    (tmp_path / made.name).write_text(text, "utf-8")
    facts = read_facts(tmp_path / made.name)
    restoring.remember(store, facts.program_sha256, made.solution.schedule)
    with pytest.raises(Underivable, match="another program"):
        derived(facts, None, made.name, store=store)


@pytest.mark.medium
def test_a_program_that_waits_early_is_found(tmp_path: Path) -> None:
    """What the driver tried when the assembler undid the first way."""
    spec, machine = read_spec("gemm_chain"), read_machine("h200")
    made = emission(spec, machine, {}, methods=QUICK, store=(store := Store(tmp_path)))
    early = written(made.solution, {}, methods=QUICK, early=True)
    assert program_digest(early.proven.program) != program_digest(made.proven.program)
    path = tmp_path / early.name
    path.write_text(early.text, "utf-8")
    program, _ = derived(read_facts(path), None, str(path), store=store)
    assert program_digest(program) == program_digest(early.proven.program)


@pytest.mark.medium
def test_a_program_with_half_a_step_of_registers_more_is_found(tmp_path: Path) -> None:
    """What `schedgen emit` tries where there are no more."""
    spec, machine = read_spec("gemm_sum"), read_machine("h200")
    plain = emission(spec, machine, {"tile_n": "64"}, methods=QUICK)
    more = with_registers(machine, STEP // 2)
    made = emission(spec, more, {"tile_n": "64"}, methods=QUICK)
    assert program_digest(made.proven.program) != program_digest(plain.proven.program)
    path = tmp_path / made.name
    path.write_text(made.text, "utf-8")
    program, _ = derived(read_facts(path), None, str(path))
    assert program_digest(program) == program_digest(made.proven.program)
