"""CPU emulator for compiled PTX of CuTe DSL kernels, and its race checker."""
