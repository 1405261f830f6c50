"""Happens-before over the generic, async and tensor proxies."""
