"""Merges: small files put together, superseded records removed, and the proofs of both."""
