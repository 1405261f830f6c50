"""Directives outside of kernels, declarations and what they become."""

import struct

import pytest

from schedgen.emulator.ptx.parse import parse
from schedgen.emulator.ptx.tree import Module, Parameter, Variable

HEADER = ".version 8.8\n.target sm_100a\n.address_size 64\n"


def module(text: str) -> Module:
    return parse(HEADER + text)


def variables(text: str) -> dict[str, Variable]:
    return {variable.name: variable for variable in module(text).variables}


def test_header() -> None:
    parsed = parse(".version 9.10\n.target sm_90a, debug\n.address_size 64\n")
    assert (parsed.version, parsed.target, parsed.address_size) == ((9, 10), "sm_90a", 64)
    assert parsed.lines[1] == ".target sm_90a, debug"
    assert not parsed.kernels


def test_comments_debug_sections_and_pragmas_are_skipped() -> None:
    parsed = module(
        """
        // .globl k
        .file 1 "/src/a.py", 1700000000, 1234
        .section .debug_str { info: .b8 1, 2 // text
            .b32 info+4 .b64 .debug_abbrev }
        .pragma "nounroll";
        /* .entry
           no { */
        .visible .entry k() .pragma "a", "b"; { .pragma "nounroll"; ret; }
        """
    )
    assert [i.opcode for i in parsed.kernels["k"].body] == ["ret"]


def test_parameters_are_laid_out_by_alignment() -> None:
    kernel = module(
        """.visible .entry k(
            .param .u8 a,
            .param .u64 .ptr .global .align 16 b,
            .param .u32 .ptr.shared.align 8 c,
            .param .align 128 .b8 map[128],
            .param .align 4 .b8 tail[20],
            .param .v4 .f32 v
        ) { ret; }"""
    ).kernels["k"]
    assert kernel.parameters == (
        Parameter("a", "u8", 1, 1, 0),
        Parameter("b", "u64", 8, 8, 8),
        Parameter("c", "u32", 4, 4, 16),
        Parameter("map", "b8", 128, 128, 128),
        Parameter("tail", "b8", 20, 4, 256),
        Parameter("v", "f32", 16, 16, 288),
    )


def test_performance_directives() -> None:
    kernel = module(
        """.entry k .reqntid 384, 1, 1 .maxntid 512 .minnctapersm 1 .maxnreg 168
        .reqnctapercluster 2, 1, 1 .explicitcluster .maxclusterrank 8 .blocksareclusters { ret; }"""
    ).kernels["k"]
    assert kernel.directives == {
        "reqntid": (384, 1, 1),
        "maxntid": (512,),
        "minnctapersm": (1,),
        "maxnreg": (168,),
        "reqnctapercluster": (2, 1, 1),
        "explicitcluster": (),
        "maxclusterrank": (8,),
        "blocksareclusters": (),
    }


def test_shared_memory() -> None:
    found = variables(
        """.extern .shared .align 1024 .b8 dynamic[];
        .shared .align 8 .b64 barrier, more[3];
        .shared .u16 rows<2>;"""
    )
    shape = {name: (v.space, v.type, v.size, v.align) for name, v in found.items()}
    assert shape == {
        "dynamic": ("shared", "b8", 0, 1024),
        "barrier": ("shared", "b64", 8, 8),
        "more": ("shared", "b64", 24, 8),
        "rows0": ("shared", "u16", 2, 2),
        "rows1": ("shared", "u16", 2, 2),
    }


@pytest.mark.parametrize(
    ("declaration", "size", "data"),
    [
        (".u32 x = 42", 4, struct.pack("<I", 42)),
        (".s16 x = -2", 2, struct.pack("<h", -2)),
        (".b8 x[4] = {0x68, 105, 0b1}", 4, b"hi\1"),
        (".b8 x[] = {1, 2, 3}", 3, b"\1\2\3"),
        (".f32 x[2] = {1.5, 0fBF800000}", 8, struct.pack("<ff", 1.5, -1.0)),
        (".f64 x = 0d3FF8000000000000", 8, struct.pack("<d", 1.5)),
        (".f64 x = .05", 8, struct.pack("<d", 0.05)),
        (".b32 x = 0f3F800000", 4, struct.pack("<f", 1.0)),
        (".s8 x[3][2] = {{1, 2}, {3}}", 6, bytes([1, 2, 3, 0])),
        (".s32 x[][2] = { {-1, 0}, {0, 1} }", 16, struct.pack("<4i", -1, 0, 0, 1)),
        (".v2 .u16 x[2] = {{1, 2}, {3, 4}}", 8, struct.pack("<4H", 1, 2, 3, 4)),
        (".u64 x[2]", 16, b""),
    ],
)
def test_initializers(declaration: str, size: int, data: bytes) -> None:
    variable = variables(f".global {declaration};")["x"]
    assert (variable.size, variable.data) == (size, data)


def test_functions_that_the_driver_provides() -> None:
    function = module(
        """.extern .func (.param .b32 func_retval0) vprintf
        (
            .param .b64 vprintf_param_0,
            .param .b64 vprintf_param_1
        )
        ;
        .extern .func stop .noreturn;"""
    ).functions["vprintf"]
    assert function.body is None
    assert [result.name for result in function.results] == ["func_retval0"]
    assert [parameter.offset for parameter in function.parameters] == [0, 8]


def test_function_with_prototype_and_body() -> None:
    parsed = module(
        """.func (.param .b32 r) twice (.param .b32 x);
        .visible .func (.param .b32 r) twice (.param .b32 x) {
            .reg .b32 %r<1>;
            ld.param.b32 %r0, [x];
            add.s32 %r0, %r0, %r0;
            st.param.b32 [r], %r0;
            ret;
        }"""
    )
    body = parsed.functions["twice"].body
    assert body is not None
    assert len(body.body) == 4
    assert not parsed.kernels
