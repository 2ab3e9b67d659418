"""Readers of dumps: files with records of topics, written by other tools.

Three formats are supported, plain or gzipped. They are recorded histories (`histories`), the output
of `kcat -J` (`kcat`), and that of `kafka-console-consumer` with keys and timestamps (`console`).
Readers preserve bytes, offsets and gaps, and report each line that they cannot read.
"""

from controlplane.logs.dumps.dump import Dump, Problem
from controlplane.logs.dumps.formats import FORMATS, read_dump

__all__ = ["FORMATS", "Dump", "Problem", "read_dump"]
