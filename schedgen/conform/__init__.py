"""Translation validation: a kernel's PTX against its program, without executing anything."""
