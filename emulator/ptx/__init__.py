"""Typed trees of PTX files, and the parser that makes them."""
