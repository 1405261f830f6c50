"""Functions of generated files for elements of 8 and 4 bits that are whole numbers."""

NARROW = '''
def of_bytes(registers):
    """Whole numbers of 8 bits as float32. With its sign flipped such a number is 128 more, and in
    the low bits of 1024 in half precision it is added to that: two are put there at a time.
    """
    words = cute.recast_tensor(registers, Int32)
    pairs = cute.make_rmem_tensor(cute.size(registers) // 2, Int32)
    for v in range(cute.size(pairs)):
        flipped, first = words[v // 2] ^ Int32(-0x7F7F7F80), v % 2 * 0x202
        pairs[v] = cute.arch.prmt(flipped, Int32(0x64646464), Int32(0x4140 + first))
    numbers = cute.make_rmem_tensor(cute.size(registers), Float32)
    numbers.store((cute.recast_tensor(pairs, Float16).load() - Float16(1152.0)).to(Float32))
    return numbers


def chosen_bits(word, mask, other):
    """(word & mask) ^ other in one instruction: of two constants a compiler makes two."""
    from cutlass._mlir.dialects import llvm

    words = [one.ir_value() for one in (word, mask, other)]
    text = "lop3.b32 $0, $1, $2, $3, 0x6A;"
    return Int32(llvm.inline_asm(words[0].type, words, text, "=r,r,r,r"))


def of_halves(registers):
    """Whole numbers of 4 bits, two of each byte, as float32. With its sign flipped such a number is
    8 more, and in the low bits of 1024 in half precision it is added to that, in the next ones 16
    times of it: two that are 16 bits apart are put there at a time.
    """
    words = cute.recast_tensor(registers, Int32)
    low = cute.make_rmem_tensor(2 * cute.size(words), Int32)
    high = cute.make_rmem_tensor(2 * cute.size(words), Int32)
    for v in range(cute.size(low)):
        word = words[v // 2] >> 8 if v % 2 else words[v // 2]
        low[v] = chosen_bits(word, Int32(0x000F000F), Int32(0x64086408))
        high[v] = chosen_bits(word, Int32(0x00F000F0), Int32(0x64806480))
    first, second = (cute.recast_tensor(pairs, Float16).load() for pairs in (low, high))
    both = [cute.make_rmem_tensor(cute.size(registers), Float32) for _ in range(2)]
    both[0].store((first - Float16(1032.0)).to(Float32))
    both[1].store((second * Float16(0.0625) - Float16(72.0)).to(Float32))
    numbers = cute.make_rmem_tensor(2 * cute.size(registers), Float32)
    for v in range(cute.size(numbers)):
        numbers[v] = both[v % 2][v // 8 * 4 + v % 4 // 2 * 2 + v % 8 // 4]
    return numbers

'''
