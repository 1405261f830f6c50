"""Programs and compiled kernels with one mistake in them, which proof and emulator have to find."""
