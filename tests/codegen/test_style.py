"""Programs that are written in other ways than the plain one."""

from __future__ import annotations

import math
import re
from itertools import takewhile
from pathlib import Path

import pytest
import torch

from schedgen.codegen.compiling import compile_file
from schedgen.codegen.emit import emit
from schedgen.codegen.errors import EmitError
from schedgen.codegen.facts import read_facts
from schedgen.codegen.style import PLAIN, Style, asked, compile_options
from schedgen.conform.assembly import disassembler
from schedgen.conform.listing import disassembled
from schedgen.driver.emulating import compiled
from schedgen.driver.inputs import default_extents, outputs, random_inputs
from tests.codegen.examples import SPECS, solved

BLOCKS = Style(blocks=True)


def test_words() -> None:
    assert (PLAIN.words, BLOCKS.words) == ((), ("blocks",))
    assert Style.of(("blocks",)) == BLOCKS
    assert Style.of(()) == PLAIN
    assert (asked(()), asked(("plain",)), asked(("blocks",))) == (None, PLAIN, BLOCKS)
    with pytest.raises(EmitError, match="'rolled' is no way to write a program; there is blocks"):
        Style.of(("rolled",))


def test_blocks(tmp_path: Path) -> None:
    """Behind a product that threads compute beside, in the loop; nowhere else."""
    proven, kernel = solved(SPECS / "moved_operand.yaml", "h200")
    plain, text = emit(proven, kernel), emit(proven, kernel, style=BLOCKS)
    assert "begin_block" not in plain
    assert "STYLE" not in plain
    (behind,) = re.findall(r"commit_group\(\)\n +begin_block\(turn\)\n +# (\w+)", text)
    assert behind == "ADD"
    assert text.count("begin_block(") == 2
    path = tmp_path / "kernel.py"
    path.write_text(text, "utf-8")
    assert read_facts(path).style == ("blocks",)
    path.write_text(plain, "utf-8")
    assert read_facts(path).style == ()


def test_nothing_behind_products() -> None:
    """Where nothing is computed beside a product the text is the plain one, and is not tried."""
    settings = {"tile_m": "64", "tile_n": "32", "slice_n": "32", "consumers": "1"}
    proven, kernel = solved("gemm", "h200", **settings)
    assert emit(proven, kernel, style=BLOCKS) == emit(proven, kernel)


@pytest.mark.medium
def test_straight(tmp_path: Path) -> None:
    """Tiles of 32 bits without selections; on Blackwell there are none anyway."""
    proven, kernel = solved(SPECS / "words.yaml", "h200", columns="64")
    plain, text = emit(proven, kernel), emit(proven, kernel, style=Style(straight=True))
    assert "def store_pairs(" in plain
    assert "def store_straight(" in text
    assert "_pairs(" not in text
    path = tmp_path / "kernel.py"
    path.write_text(text, "utf-8")
    assert read_facts(path).style == ("straight",)
    with compiled(text, kernel, "sm_90a", banks=True) as made:
        outcome = made.run({"m": 72, "n": 132})
    assert outcome.correct
    assert outcome.clean
    assert made.banks is not None
    taken, least = made.banks.passes
    assert taken > least
    proven, kernel = solved(SPECS / "words.yaml", "b200", columns="32")
    assert emit(proven, kernel, style=Style(straight=True)) == emit(proven, kernel)


@pytest.mark.medium
def test_straight_without_such_tiles_is_plain() -> None:
    proven, kernel = solved("gemm", "h200")
    assert emit(proven, kernel, style=Style(straight=True)) == emit(proven, kernel)


@pytest.mark.medium
def test_loose(tmp_path: Path) -> None:
    """Nothing is held back before waits for products; on Blackwell, and where threads compute
    nothing before one, nothing is anyway.
    """
    settings = {"head_dim": "64", "head_dim_v": "64"}
    proven, kernel = solved("attention_fwd", "h200", **settings)
    plain, text = emit(proven, kernel), emit(proven, kernel, style=Style(loose=True))
    assert "hold_back(" in plain
    assert "hold_back(" not in text
    path = tmp_path / "kernel.py"
    path.write_text(text, "utf-8")
    assert read_facts(path).style == ("loose",)
    for spec, target in (("gemm", "h200"), ("attention_fwd", "b200")):
        proven, kernel = solved(spec, target)
        assert emit(proven, kernel, style=Style(loose=True)) == emit(proven, kernel)


@pytest.mark.medium
def test_late(tmp_path: Path) -> None:
    """Threads find out behind the main loop where results go; on Blackwell as ever."""
    proven, kernel = solved("attention_fwd", "h200", head_dim="64", head_dim_v="64")
    plain, text = emit(proven, kernel), emit(proven, kernel, style=Style(late=True))
    assert "anew(" not in plain
    role = text[text.index("\ndef softmax") :]
    lines = role[role.index("        for turn in") :].splitlines()[1:]
    loop = list(takewhile(lambda line: line.startswith(" " * 12), lines))
    assert loop
    assert "anew(thread)" not in "\n".join(loop)
    assert "anew(thread)" in "\n".join(lines[len(loop) :])
    path = tmp_path / "kernel.py"
    path.write_text(text, "utf-8")
    assert read_facts(path).style == ("late",)
    proven, kernel = solved("attention_fwd", "b200")
    assert emit(proven, kernel, style=Style(late=True)) == emit(proven, kernel)


def test_prompt(tmp_path: Path) -> None:
    """Waits of roles have no hint; nothing else differs."""
    proven, kernel = solved("gemm", "h200")
    plain, text = emit(proven, kernel), emit(proven, kernel, style=Style(prompt=True))
    assert plain.count("cute.arch.mbarrier_wait(") == text.count(" wait(") - 1 > 4
    assert "mbarrier_wait" not in text
    assert "def wait(" not in plain
    path = tmp_path / "kernel.py"
    path.write_text(text, "utf-8")
    assert read_facts(path).style == ("prompt",)


@pytest.mark.medium
def test_prompt_on_blackwell(tmp_path: Path) -> None:
    """Where other files import nothing that waits would be written with."""
    proven, kernel = solved("gemm", "b200")
    path = tmp_path / "kernel.py"
    path.write_text(emit(proven, kernel, style=Style(prompt=True)), "utf-8")
    assert compile_file(path, tmp_path, sms=148).cubin.exists()
    assert " llvm" not in emit(proven, kernel).partition("@cute")[0]


@pytest.mark.medium
def test_first_level(tmp_path: Path) -> None:
    """The same text, from which the assembler makes something else."""
    proven, kernel = solved("gemm", "h200")
    plain, text = emit(proven, kernel), emit(proven, kernel, style=Style(o1=True))
    assert text.splitlines()[:-1] == plain.splitlines()
    assert text.splitlines()[-1] == 'STYLE = ("o1",)'
    code: list[bytes] = []
    for name, written in (("plain", plain), ("o1", text)):
        path = tmp_path / name / "kernel.py"
        path.parent.mkdir()
        path.write_text(written, "utf-8")
        code.append(compile_file(path, path.parent, sms=132).cubin.read_bytes())
    assert code[0] != code[1]
    assert (compile_options(()), compile_options(("late", "o1"))) == ("", "--ptxas-options '-O1'")


@pytest.mark.medium
def test_threes(tmp_path: Path) -> None:
    """Maxima of three numbers at a time, two at a time where one is negative; not on Blackwell, and
    not where more is found from them each time.
    """
    proven, kernel = solved("attention_fwd", "h200", head_dim="64", head_dim_v="64")
    assert emit(proven, kernel, style=Style(threes=True)) == emit(proven, kernel)
    proven, kernel = solved("attention_parts", "h200")
    text = emit(proven, kernel, style=Style(threes=True))
    found = text.partition("def MAX(")[2].partition("\n\n\n")[0]
    negative = "if cute.arch.vote_any_sync((mx[0] < 0.0) | (mx[1] < 0.0)):"
    assert re.findall(r"row_max\w*|if .*:", found) == ["row_max_of_threes", negative, "row_max"]
    path = tmp_path / "kernel.py"
    path.write_text(text, "utf-8")
    assert read_facts(path).style == ("threes",)
    program = disassembler()
    assert program is not None
    machine = disassembled(program, compile_file(path, tmp_path, sms=132).cubin)
    assert len(re.findall(r"\bVIMNMX3 ", machine)) > 20
    proven, kernel = solved("attention_fwd", "b200")
    assert emit(proven, kernel, style=Style(threes=True)) == emit(proven, kernel)


@pytest.mark.medium
def test_seldom(tmp_path: Path) -> None:
    """A new maximum, and the factor of what was added up with the one before."""
    proven, kernel = solved("attention_fwd", "h200", head_dim="64", head_dim_v="64")
    plain, text = emit(proven, kernel), emit(proven, kernel, style=Style(seldom=True))
    asked, computed, otherwise = (
        r"if any_of_warp\(\s*\(not \(\(\(mx\[0\] \* scale\) - base\[0\]\) <= 8\.0\)\)",
        r"cute\.math\.exp2",
        r"else:\n +for v in cutlass\.range_constexpr\(2\):\n +alpha\[v\] = 1\.0\n\n",
    )
    before, _, after = text.partition("def MAX(")
    assert re.search(f"{asked}.*{computed}.*{otherwise}", after.partition("@cute")[0], re.DOTALL)
    assert "any_of_warp(" not in before.partition("def any_of_warp(")[2]
    assert "any_of_warp" not in plain
    path = tmp_path / "kernel.py"
    path.write_text(text, "utf-8")
    assert read_facts(path).style == ("seldom",)
    for spec, target in (("gemm_rms", "h200"), ("attention_fwd", "b200")):
        proven, kernel = solved(spec, target)
        assert emit(proven, kernel, style=Style(seldom=True)) == emit(proven, kernel)


@pytest.mark.medium
def test_threes_and_seldom_ask_once() -> None:
    """Whether a maximum is negative, and found again, and whether it is a new one."""
    proven, kernel = solved("attention_fwd", "h200", head_dim="64", head_dim_v="64")
    text = emit(proven, kernel, style=Style(threes=True, seldom=True))
    found = text.partition("def MAX(")[2].partition("\n@cute")[0]
    found = found.split('"""')[2]
    asked = "(mx[0] < 0.0) | (mx[1] < 0.0) | (not (((mx[0] * scale) - base[0]) <= 8.0)) | (not "
    assert asked in " ".join(found.split())
    steps = re.findall(r"row_max\w*|any_of_warp|exp2|vote\w+|else:\n", found)
    assert steps == ["row_max_of_threes", "any_of_warp", "row_max", "exp2", "else:\n"]


@pytest.mark.medium
def test_seldom_of_a_map() -> None:
    proven, kernel = solved("attention_parts", "h200")
    text = emit(proven, kernel, style=Style(seldom=True))
    found = text.partition("def STAT(")[2].partition("\n@cute")[0]
    assert found.count("if any_of_warp((not (((m[0] - mx[0]) * scale) >= (-8.0))) | (not ") == 1
    assert "any_of_warp" not in emit(proven, kernel)


@pytest.mark.medium
def test_threes_and_seldom_of_any_numbers() -> None:
    """Of scores that are all negative, and so far apart that exponentials are infinite unless the
    maximum is right, of zeros of both signs, and of no numbers.
    """
    proven, kernel = solved("attention_fwd", "h200", head_dim="64", head_dim_v="64")
    sizes = {"batch": 1, "heads": 1, "heads_k": 1, "seq_q": 70, "seq_k": 150, "scale": 2}
    sizes = default_extents(kernel, sizes)
    inputs = random_inputs(kernel, sizes, 0)
    q, k, v = (torch.as_tensor(inputs[name])[0, :, 0] for name in "qkv")
    k[:, 0] = k[:, 0].abs() + 1
    q[16:32], q[16:32, 0] = 0, -64
    q[40:48] = -0.0
    q[66] = torch.nan
    results = outputs(kernel, sizes)
    text = emit(proven, kernel, style=Style(threes=True, seldom=True))
    with compiled(text, kernel, proven.program.arch) as made:
        made.execute({**inputs, **results})
    scores = q.float() @ k.float().T
    assert (scores[16:32] < 0).all()
    wanted = (scores * 2 * math.log(2)).softmax(-1) @ v.float()
    found = torch.as_tensor(results["o"])[0, :, 0].float()
    assert found[66].isnan().all()
    found[66] = wanted[66] = 0
    assert (found - wanted).abs().max() < 0.02
