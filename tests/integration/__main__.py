"""`make kafka-its`: run Kafka's integration tests, record the results, write the page.

    python -m tests.integration [CLASS…] [--worker java|own]

Output of JUnit and of the workers stays in `.cache/integration/`.
"""

import asyncio
import shutil
import sys

import click

from tests.integration.artifacts import CACHE
from tests.integration.junit import run_tests
from tests.integration.recorded_failures import record_failures
from tests.integration.results_page import PAGE, page, unexplained
from tests.integration.selection import TEST_CLASSES
from tests.integration.worker_programs import PROGRAMS
from tests.jars import JarsUnavailable


@click.command()
@click.argument("classes", nargs=-1, metavar="[CLASS]...")
@click.option(
    "--worker", "workers", multiple=True, type=click.Choice([*PROGRAMS]), default=[*PROGRAMS]
)
def main(classes: tuple[str, ...], workers: tuple[str, ...]) -> None:
    """Run CLASS, or every class, on Java workers and on our service."""
    try:
        for test_class in classes or TEST_CLASSES:
            for worker in workers:
                asyncio.run(_run(test_class, worker))
    except JarsUnavailable as missing:
        raise click.ClickException(str(missing)) from None
    PAGE.write_text(page(), "utf-8")
    defects = [*unexplained()]
    for defect in defects:
        click.echo(defect, err=True)
    sys.exit(bool(defects))


async def _run(test_class: str, worker: str) -> None:
    folder = CACHE / f"{worker}-{test_class}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    failures = await run_tests(test_class, await PROGRAMS[worker](), folder)
    record_failures(test_class, worker, failures)
    passed = sum(failure is None for failure in failures.values())
    click.echo(f"{test_class} on {worker}: {passed} of {len(failures)} pass")


main()
