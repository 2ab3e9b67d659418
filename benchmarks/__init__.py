"""Benchmarks, most of them with a peer in the same run: `python -m benchmarks.fold`.

These are programs:

- each module beside this file, and each module in `archives`;
- the folders `fleets`, `kafka`, `pipeline`, `replay` and `rest`;
- `fleets.memory`, `fleets.driver_memory` and `rest.health_latency`.

Programs share `inputs` and `processes`.

Machines are shared and noisy, so ratios count, not seconds. Contestants take turns in several
rounds. A figure is the best or the median of them, as each program says.
"""
