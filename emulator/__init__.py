"""Home of the CPU emulator for compiled PTX and of its race checker; not written yet."""
