"""Merges: small files joined, superseded records removed, and the proofs of both."""
