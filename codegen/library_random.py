"""Library functions of generated files that draw random numbers by a counter
(`schedgen.expressions.counters`).
"""

RANDOM = '''
def philox(key, counter):
    """Four words of Philox4x32-7: two products of two words in each round, both halves of each."""
    (k0, k1), (c0, c1, c2, c3) = key, counter
    for _ in range(7):
        first = cutlass.Uint64(c0) * cutlass.Uint64(0xD2511F53)
        second = cutlass.Uint64(c2) * cutlass.Uint64(0xCD9E8D57)
        c0, c1, c2, c3 = (
            cutlass.Uint32(second >> 32) ^ c1 ^ k0,
            cutlass.Uint32(second),
            cutlass.Uint32(first >> 32) ^ c3 ^ k1,
            cutlass.Uint32(first),
        )
        k0, k1 = k0 + cutlass.Uint32(0x9E3779B9), k1 + cutlass.Uint32(0xBB67AE85)
    return c0, c1, c2, c3


def uniform(low, high, last, *others):
    """A random number from 0 to below 1 that depends on whole numbers only: the key, and counters,
    of which four neighbours along the last one share an evaluation. What is shifted is masked: the
    DSL may still take it for signed.
    """
    zero = cutlass.Uint32(0)
    counter = [cutlass.Uint32(other) for other in others] + [zero] * (3 - len(others))
    last = cutlass.Uint32(last)
    words = philox((cutlass.Uint32(low), cutlass.Uint32(high)), (last >> 2 & 0x3FFFFFFF, *counter))
    odd, upper = (last & 1) != 0, (last & 2) != 0
    lower_pair = cutlass.select_(odd, words[1], words[0])
    upper_pair = cutlass.select_(odd, words[3], words[2])
    word = cutlass.Uint32(cutlass.select_(upper, upper_pair, lower_pair))
    mantissa = word >> 9 & 0x7FFFFF
    return (mantissa | cutlass.Uint32(0x3F800000)).bitcast(Float32) - 1.0
'''
