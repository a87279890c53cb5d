"""Readers of other schedulers: each turns what it finds there into rows of an import."""
