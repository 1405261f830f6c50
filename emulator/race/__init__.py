"""`schedgen race`: programs for a GPU as they are, executed in the emulator and checked."""
