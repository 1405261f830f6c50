"""Functions of generated files that take turns with other blocks."""

TURNS = '''
def await_turn(words, at, number):
    """Until a word in global memory is a number, which another block writes behind what it has
    added; then bulk copies of this warp come behind those of that block.
    """
    from cutlass._mlir.dialects import llvm

    text = (
        "{\\n.reg .pred P1;\\n.reg .b32 R1;\\nLAB_TURN:\\n"
        "ld.acquire.gpu.global.b32 R1, [$0];\\nsetp.eq.b32 P1, R1, $1;\\n"
        "@P1 bra DONE;\\nbra LAB_TURN;\\nDONE:\\n}"
    )
    given = [(words.iterator + at).toint().ir_value(), Int32(number).ir_value()]
    llvm.inline_asm(None, given, text, "l,r", has_side_effects=True)
    llvm.inline_asm(None, [], "fence.proxy.async.global;", "", has_side_effects=True)
    cute.arch.sync_warp()


@cute.jit
def pass_turn(words: cute.Tensor, at: Int32, number: Int32):
    """Writes a number to a word in global memory, behind all bulk copies of this warp."""
    cute.arch.cp_async_bulk_wait_group(0)
    with cute.arch.elect_one():
        write_turn(words, at, number)


def write_turn(words, at, number):
    """A word that blocks which read it take for a sign that all before is there."""
    from cutlass._mlir.dialects import llvm

    given = [(words.iterator + at).toint().ir_value(), Int32(number).ir_value()]
    text = "st.release.gpu.global.b32 [$0], $1;"
    llvm.inline_asm(None, given, text, "l,r", has_side_effects=True)
'''
