"""`docs/kafka-integration-tests.md`: each test on Java workers and on our service."""

from collections.abc import Iterable, Iterator, Mapping

from tests.integration.junit import Failures
from tests.integration.recorded_failures import read_failures
from tests.integration.selection import LEFT_OUT, REASONS, TEST_CLASSES
from tests.integration.worker_programs import JAVA, OWN
from tests.jars import ROOT

PAGE = ROOT / "docs" / "kafka-integration-tests.md"

HEAD = """# Kafka's own integration tests

`make kafka-its` runs integration tests of Kafka Connect 3.9.1 unchanged, from Kafka's released
jars. Each test runs against two kinds of workers, and this page has the results.
`make kafka-its CLASS=OffsetsApiIntegrationTest` runs one class.

- **Java**: Kafka's own workers, as processes. They show that a test can pass on workers outside of
  its JVM.
- **here**: `controlplane serve kafka://… --own`, with Python twins of the tests' connectors
  ([how it is done](testing.md#run-kafkas-integration-tests)).

A dash: the test cannot run on processes. It needs an object in the JVM of the tests, or a Java
plugin, or stops one of several workers. The same holds for test classes that this page omits.

"""

SUMMARY = "| Class | Tests | Pass on Java | Pass here |\n|---|---|---|---|\n"
CLASS = "\n## {}\n\n| Test | Java | here | Reason |\n|---|---|---|---|\n"


def page() -> str:
    """Text of the page, made from the recorded results."""
    recorded = read_failures()
    classes = {name: recorded[name] for name in TEST_CLASSES if name in recorded}
    totals = "".join(_total(name, results) for name, results in classes.items())
    tables = "".join(_table(name, results) for name, results in classes.items())
    return f"{HEAD}{SUMMARY}{totals}{tables}"


def unexplained() -> Iterator[str]:
    """Yield each test that passes on Java workers and fails here without a reason."""
    for name, results in read_failures().items():
        java, own = results.get(JAVA, {}), results.get(OWN, {})
        reasons = REASONS.get(name, {})
        for test in sorted(own):
            if own[test] is not None and java.get(test) is None and test not in reasons:
                yield f"{name}.{test}: {own[test]}"


def _total(name: str, results: Mapping[str, Failures]) -> str:
    total = len(_tests(results)) + len(LEFT_OUT.get(name, {}))
    counts = (_passed(results.get(worker, {}).values()) for worker in (JAVA, OWN))
    return f"| [{name}](#{name.lower()}) | {total} | {' | '.join(counts)} |\n"


def _passed(failures: Iterable[str | None]) -> str:
    outcomes = [failure is None for failure in failures]
    return str(sum(outcomes)) if outcomes else "–"


def _table(name: str, results: Mapping[str, Failures]) -> str:
    reasons = {**LEFT_OUT.get(name, {}), **REASONS.get(name, {})}
    tests = sorted({*_tests(results), *reasons})
    rows = (
        f"| {test} | {_result(results, JAVA, test)} | {_result(results, OWN, test)} "
        f"| {reasons.get(test, '')} |\n"
        for test in tests
    )
    return CLASS.format(name) + "".join(rows)


def _tests(results: Mapping[str, Failures]) -> set[str]:
    return {test for failures in results.values() for test in failures}


def _result(results: Mapping[str, Failures], worker: str, test: str) -> str:
    failures = results.get(worker, {})
    if test not in failures:
        return "–"
    return "passes" if failures[test] is None else "fails"
