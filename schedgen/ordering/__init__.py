"""Which events of a program are ordered for all trip counts and latencies, and which have to be.

Synthesis asks it what is still missing; method 1 of the proof, whether anything is.
"""
