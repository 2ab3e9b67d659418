"""Offsets of source tasks: which may be committed, and the records that commit them."""
