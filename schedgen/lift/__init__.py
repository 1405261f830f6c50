"""Programs of kernels that nobody here made: read from PTX, then proven for all trip counts."""
