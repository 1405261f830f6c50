"""`schedgen tune`: which schedule and which sizes of tiles are the fastest on a GPU.

Candidates are solved, emitted, compiled and compared with their programs where there is a solver;
measured where there is a GPU; and the winner is what a record of that says.
"""
