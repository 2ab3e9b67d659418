"""Readers of dumps: files to which other tools have written the records of topics.

Three formats are supported, plain or gzipped: recorded histories (`histories`), the output of
`kcat -J` (`kcat`), and the output of `kafka-console-consumer` with keys and timestamps (`console`).
Reading preserves bytes, offsets and gaps, and reports each line that it cannot read.
"""

from controlplane.logs.dumps.dump import Dump, Problem
from controlplane.logs.dumps.formats import FORMATS, read_dump

__all__ = ["FORMATS", "Dump", "Problem", "read_dump"]
