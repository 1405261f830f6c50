"""Where tiles, fragments and matrices lie, and products of them: pure functions."""
