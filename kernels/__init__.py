"""Home of the generated kernels and of the torch functions that call them; none exists yet."""
