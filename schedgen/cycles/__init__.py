"""What an iteration of a compiled kernel takes, by its machine code, without a GPU."""
