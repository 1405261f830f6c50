"""Proof that a program is free of races and deadlocks, by three methods that must agree."""
