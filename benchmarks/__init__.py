"""Measurements, each beside a peer in the same run: `python -m benchmarks.fold`.

Machines are shared and noisy, so ratios count and not seconds; every figure is the best of several
rounds, in which the contestants take turns.
"""
