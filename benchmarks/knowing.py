"""The smallest program that knows a cluster: it reads, folds, says so and ends.

python -m benchmarks.knowing HOST:PORT RELEASE
"""

import asyncio
import sys

from controlplane import Profile, load, views
from controlplane.logs.kafka.reader import KafkaReader

KNOWN = "known:"
"""What its one line begins with; the number of connectors follows."""


async def main(address: str, release: str) -> None:
    """Print a line as soon as any view can be asked for."""
    reader = await KafkaReader.open(address)
    try:
        state = (await load(reader, Profile.of(release))).snapshot()
        print(KNOWN, len(views.connectors(state)), flush=True)
    finally:
        await reader.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
