"""Modulo scheduling: problem, bounds, CP-SAT model, search, second opinion, checks."""
