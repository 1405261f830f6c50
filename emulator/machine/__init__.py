"""Lanes, warps, blocks, memories and the scheduler that runs them."""
