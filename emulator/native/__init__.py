"""Machine code for what is executed most: see `engine`."""
