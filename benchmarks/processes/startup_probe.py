"""Smallest program that embeds the library: read, fold, print, and end.

The second printed line is the peak memory in KiB.

python -m benchmarks.processes.startup_probe HOST:PORT RELEASE
"""

import asyncio
import resource
import sys

from controlplane import Profile, load, views
from controlplane.logs.kafka.reads.reader import KafkaReader

KNOWN = "known:"
"""Prefix of the printed line; the number of connectors follows."""


async def main(address: str, release: str) -> None:
    """Print a line once every view is available."""
    reader = await KafkaReader.open(address)
    try:
        state = (await load(reader, Profile.of(release))).snapshot()
        print(KNOWN, len(views.connectors(state)), flush=True)
    finally:
        await reader.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
