"""Variants of attention: masks and scores as expressions, kernels by what they say.

`reading` makes an expression of the caller's text, `spec` the spec of a variant of its expressions,
and `calling` finds the kernel of that spec, by content, and gives it its arguments.
"""
