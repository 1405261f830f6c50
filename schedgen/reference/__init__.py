"""What a kernel computes, again: numpy in float64, and how far off a right kernel may be."""
