"""Benchmarks, each with a peer in the same run: `python -m benchmarks.fold`.

Machines are shared and noisy, so ratios count, not seconds. The contestants take turns; every
figure is the best of several rounds.
"""
