"""Functions of generated files that count output tiles, and wait for those of another kernel."""

FOLLOWING = '''
def await_tiles(words, at, number):
    """Until a word in global memory counts so many tiles of another kernel; then bulk copies of
    this warp come behind what these have stored.
    """
    from cutlass._mlir.dialects import llvm

    text = (
        "{\\n.reg .pred P1;\\n.reg .b32 R1;\\nLAB_TILES:\\n"
        "ld.acquire.gpu.global.b32 R1, [$0];\\nsetp.ge.s32 P1, R1, $1;\\n"
        "@P1 bra DONE;\\nbra LAB_TILES;\\nDONE:\\n}"
    )
    place = words.iterator + cute.crd2idx(at, words.layout)
    given = [place.toint().ir_value(), Int32(number).ir_value()]
    llvm.inline_asm(None, given, text, "l,r", has_side_effects=True)
    llvm.inline_asm(None, [], "fence.proxy.async.global;", "", has_side_effects=True)
    cute.arch.sync_warp()


@cute.jit
def count_tile(words: cute.Tensor, at: cute.Coord):
    """Adds one to a word in global memory, behind all bulk copies of this warp."""
    cute.arch.cp_async_bulk_wait_group(0)
    with cute.arch.elect_one():
        count_at(words, at)


def count_at(words, at):
    """One more, which blocks of the next kernel take for a sign that all before is there."""
    from cutlass._mlir.dialects import llvm

    place = words.iterator + cute.crd2idx(at, words.layout)
    given = [place.toint().ir_value(), Int32(1).ir_value()]
    text = "red.release.gpu.global.add.u32 [$0], $1;"
    llvm.inline_asm(None, given, text, "l,r", has_side_effects=True)
'''
