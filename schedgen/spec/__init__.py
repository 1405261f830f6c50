"""Spec files: YAML text with positions, validated and turned into a kernel model."""
