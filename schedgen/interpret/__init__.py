"""What a kernel computes: its spec, or its role programs, executed on small problems."""
