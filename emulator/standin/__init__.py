"""A GPU that is not there, for programs that believe in it: torch's `cuda` without a driver."""
