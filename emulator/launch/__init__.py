"""Launches of CuTe DSL host code, captured on a machine without a GPU."""
