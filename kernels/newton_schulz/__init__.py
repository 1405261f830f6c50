"""Orthogonal polar factors by Newton-Schulz iterations, and the Muon optimizer on top of them."""
