"""Speed on Kafka of commands, a fold and appends, each compared with other programs.

    python -m benchmarks.kafka [--only commands] [--records 10] [--rounds 3] [--quick]

- `commands`: to `serve --connect-url` and `serve --own`, compared with a worker (`commands.py`);
- `fold`: of millions of offsets, compared with a worker (`fold.py`);
- `appends`: transactions and batches, compared with plain aiokafka (`appends.py`).
"""

import asyncio
import tempfile
from pathlib import Path

import click
from rich.console import Console

from benchmarks.kafka import appends, commands, fold

MILLION = 1_000_000
PARTS = ("commands", "fold", "appends")
QUICK_S = 0.1
QUICK_RECORDS = 5_000


@click.command()
@click.option("--only", type=click.Choice(PARTS), multiple=True, help="Parts. [default: all]")
@click.option(
    "--seconds",
    default=3.0,
    show_default=True,
    help="Duration of each measurement of `commands` and `appends`, in seconds.",
)
@click.option(
    "--rounds", default=3, show_default=True, help="Number of rounds. The tables show medians."
)
@click.option("--records", default=10, show_default=True, help="Offsets to fold, in millions.")
@click.option(
    "--heap",
    default=fold.SCRIPT_HEAP_GB,
    show_default=True,
    help="Heap of the worker that folds, in GB. The default is that of its start script.",
)
@click.option("--quick", is_flag=True, help="One short round of each, to check that they run.")
def main(  # noqa: PLR0913, PLR0917 - click gives one argument per option
    only: tuple[str, ...], seconds: float, rounds: int, records: int, heap: int, quick: bool
) -> None:
    """Run the chosen benchmarks on brokers of their own, and print their tables."""
    offsets = QUICK_RECORDS if quick else records * MILLION
    duration, count = (QUICK_S, 1) if quick else (seconds, rounds)
    console = Console()
    with tempfile.TemporaryDirectory() as name:
        for part in only or PARTS:
            folder = Path(name) / part
            folder.mkdir()
            if part == "commands":
                figures = asyncio.run(commands.measure(folder, duration, count))
                console.print(commands.table(figures))
            elif part == "fold":
                pair = asyncio.run(fold.measure(folder, offsets, count, heap))
                console.print(fold.table(pair, offsets, heap))
            else:
                speeds = asyncio.run(appends.measure(folder, duration, count))
                console.print(appends.table(speeds))


if __name__ == "__main__":
    main()
