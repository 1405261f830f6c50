"""Waits of generated files (the style `prompt`)."""

WAITS = '''
def wait(barrier, phase):
    """Until a phase of a barrier is complete, without a hint of how long that may take."""
    text = (
        "{\\n.reg .pred P1;\\nLAB_WAIT:\\n"
        "mbarrier.try_wait.parity.shared::cta.b64 P1, [$0], $1;\\n"
        "@P1 bra.uni DONE;\\nbra.uni LAB_WAIT;\\nDONE:\\n}"
    )
    given = [Int32(barrier.toint()).ir_value(), Int32(phase).ir_value()]
    llvm.inline_asm(None, given, text, "r,r", has_side_effects=True)


'''
