"""Statements as terms: what is a name, an integer and the rest."""

from __future__ import annotations

from schedgen.codegen.ir import Line, Name, Stage, Uses, code
from schedgen.codegen.numbers import Affine, Number
from schedgen.codegen.printing import lines_of
from schedgen.codegen.running import Iteration, Running
from schedgen.codegen.source import Source
from schedgen.codegen.terms import AllFacts, Term, counter_of, names_in, terms_of, variables
from schedgen.program.operations import Number as RunningNumber


def of(*lines: str) -> tuple[Term, ...]:
    source = Source()
    source.add(*lines)
    return terms_of(source.nodes)


def test_tokens() -> None:
    (line,) = of('x = f(y.z, 8, by=2.5, "a 1", not w_3)')
    assert isinstance(line, Line)
    assert line.code.parts == (
        Name("x"),
        " = ",
        Name("f"),
        "(",
        Name("y"),
        ".z, ",
        Number(Affine(8)),
        ', by=2.5, "a 1", not ',
        Name("w_3"),
        ")",
    )


def test_text_stays_the_same() -> None:
    source = Source()
    source.comment("LA[0,1] writes over sA")
    with source.block("for k_step in cutlass.range_constexpr(8):"):
        source.add("mma.set(warpgroup.Field.ACCUMULATE, k_step != 0)")
        source.call("cute.gemm", ["mma", "d", "a[(None, 0)]"])
    number = Running(RunningNumber(2, -1), 3, Iteration("turn"))
    source.add(code("cute.arch.mbarrier_wait(bar + {})", Stage(number)), "x = -1.5e-3")
    assert lines_of(terms_of(source.nodes)) == source.lines


def test_statement_of_several_lines() -> None:
    """One term, without the comma behind the last argument; that of a tuple stays."""
    terms = of("x = f(", "    (1,),", "    y,", ")", "z = [", "]")
    assert lines_of(terms) == ["x = f((1,), y)", "z = []"]


def test_library_functions_stand_at_the_end() -> None:
    source = Source()
    source.uses("row_max")
    source.add("x = row_max(y)")
    assert terms_of(source.nodes)[-1] == Uses(("row_max",))


def test_variables() -> None:
    source = Source()
    source.add("a, b_1 = f(c)", "d += 1", "g(h=1)", "e[0] = 2")
    with source.block("for i in cutlass.range_constexpr(2):"):
        source.add("k = i")
    terms = terms_of(source.nodes)
    assert variables(terms) == {"a", "b_1", "d", "i", "k"}
    assert counter_of(terms[-1]) == ("i",)
    assert names_in(terms)["i"] == 2
    facts = AllFacts(variables(terms)).of(terms[-1])
    assert (facts.assigned, facts.counters, facts.lines) == ({"i", "k"}, {"i"}, 2)


def test_shapes() -> None:
    """Equal up to variables and integers; other names are part of the shape, and so are comments
    unless they do not matter.
    """
    one, other, third = of("x = f(1)", "y = f(2)", "x = g(1)")
    facts = AllFacts({"x", "y"})
    assert facts.of(one).shape == facts.of(other).shape != facts.of(third).shape
    source = Source()
    source.comment("QK[0] uses sQ")
    source.comment("PV[0] uses sV")
    words = terms_of(source.nodes)
    assert facts.of(words[0]).shape != facts.of(words[1]).shape
    silent = AllFacts({"x"}, comments=False)
    assert silent.of(words[0]).shape == silent.of(words[1]).shape
