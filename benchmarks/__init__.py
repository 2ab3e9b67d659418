"""Benchmarks, most of them with a peer in the same run: `python -m benchmarks.fold`.

A module beside this file is a program. So are the folders `fleets`, `kafka`, `pipeline`, `replay`
and `rest`, the modules in `archives`, `fleets.memory` and `rest.health_latency`. Programs share
`inputs` and `processes`.

Machines are shared and noisy, so ratios count, not seconds. Contestants take turns in several
rounds. A figure is the best or the median of them, as each program says.
"""
