"""Readers of foreign formats: files in which other tools have written the records of topics.

Three formats are known: recorded histories (`histories`), the output of `kcat -J` (`kcat`), and
what `kafka-console-consumer` prints with keys and timestamps (`console`); each plain or gzipped.
Reading keeps bytes, offsets and gaps as they were, and tells of each line that it could not read.
"""

from controlplane.logs.dumps.dump import Dump, Problem
from controlplane.logs.dumps.read import FORMATS, read_dump

__all__ = ["FORMATS", "Dump", "Problem", "read_dump"]
