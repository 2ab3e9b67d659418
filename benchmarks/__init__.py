"""Benchmarks, each with a peer in the same run: `python -m benchmarks.fold`.

A module beside this file is a program. So are the folders `fleets`, `kafka`, `pipeline`, `replay`
and `rest`, and the modules in `archives`. Programs share `inputs` and `processes`.

Machines are shared and noisy, so ratios count, not seconds. The contestants take turns; every
figure is the best of several rounds.
"""
