"""Machine models with measured numbers: micro-kernels, what they take on a GPU, and what follows.

Each experiment is a spec that goes through all stages like any other. Its cycles per iteration are
measured; the constants of the model are then changed until what the model says of the same program
is what was measured.
"""
