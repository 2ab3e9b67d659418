"""Settings that all tests share: seeds, hypothesis profiles, and an account of skipped tests.

A test is skipped if a program or file that it needs is missing. One sentence at the end counts the
skipped tests by their reason. With `CI` set, a skipped test fails the run: it proves nothing.
Exceptions are files outside of the repository, and the programs of `OPTIONAL`.
"""

import gc
import os
import secrets
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

# Pytest explains the asserts of these suites, too, although their files are not named `test_*`. The
# call must precede their import.
pytest.register_assert_rewrite(
    "tests.laws.commands", "tests.logs.contract", "tests.logs.reading_contract"
)

# A shell lets its background jobs ignore SIGINT, and every process of the run would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"
OLDEST_JDK = 17
"""Oldest JDK that Kafka 4 runs on."""

# Tests start sessions of Spark as a user does. These live for seconds, too short for the optimising
# compiler to pay.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

CI = os.environ.get("CI", "") not in {"", "0", "false"}
PROVE = os.environ.get("PROVE", "") not in {"", "0", "false"}
QUICK = os.environ.get("QUICK", "") not in {"", "0", "false"}
"""Tiers: `make quick` sets QUICK, `make prove` sets PROVE, `make test` neither."""

SEED = os.environ.get("SEED") or (secrets.token_hex(4) if PROVE else "1")
"""Seed of every test that draws random input itself: fixed, or random under `PROVE`.

`SEED=…` repeats a run. Hypothesis prints how to repeat its own failures.
"""


def seeded(name: str) -> Random:
    """Random source of the test with this name."""
    return Random(f"{SEED}/{name}")


def pytest_report_header() -> str:
    """Name the seed, so that a failure can be repeated."""
    return f"seed: {SEED}"


QUICK_EXAMPLES = 10
"""Limit for the random examples of a test, in `make quick`."""


def examples(count: int, proved: int) -> int:
    """Number of random examples: `proved` in `make prove`, few in `make quick`, else `count`."""
    return proved if PROVE else min(count, QUICK_EXAMPLES) if QUICK else count


FEWER_EXAMPLES = examples(30, proved=10_000)
"""Number of random examples for laws that take longest: in `make test`, half as many as others."""


def sampled(values: Iterable[object], *tested: object) -> list[Any]:
    """Parameters of a test: `make test` runs only those in `tested`, `make prove` runs all."""
    return [
        value if value in tested else pytest.param(value, marks=pytest.mark.prove)
        for value in values
    ]


def paired(rows: Sequence[object], columns: Sequence[object]) -> list[Any]:
    """Parameters of a test with two values: `make prove` runs all pairs.

    In `make test`, each value of both lists occurs in a pair.
    """
    shorter = min(len(rows), len(columns))
    return [
        pytest.param(row, column, marks=() if (down - across) % shorter == 0 else pytest.mark.prove)
        for down, row in enumerate(rows)
        for across, column in enumerate(columns)
    ]


def _profiles() -> None:
    """Register the hypothesis profiles and load the fitting one (HYPOTHESIS_PROFILE overrules).

    `test` and `quick` draw the same examples in every run, so that they judge the change. `prove`
    draws many new examples. No profile has a deadline: machines are shared, and slowness is no
    failure.
    """
    common = settings(deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile("test", common, max_examples=60, derandomize=True, database=None)
    settings.register_profile("quick", settings.get_profile("test"), max_examples=QUICK_EXAMPLES)
    settings.register_profile("prove", common, max_examples=10_000)
    profile = os.environ.get(
        "HYPOTHESIS_PROFILE", "prove" if PROVE else "quick" if QUICK else "test"
    )
    settings.load_profile(profile)
    if profile != "prove":
        _ignore_literals()


def _ignore_literals() -> None:
    """Keep hypothesis from using literals of the modules that are imported by now.

    Otherwise the examples of a test would depend on earlier tests and on every literal of the code.
    Hypothesis has no setting for this.
    """
    assert callable(providers._get_local_constants)
    providers._get_local_constants = lambda: providers._local_constants


_profiles()


@cache
def _java_is_missing() -> bool:
    """True without Maven or without a JDK of at least `OLDEST_JDK`."""
    home = os.environ.get("JAVA_HOME", "")
    javac = shutil.which("javac", path=f"{home}/bin") or shutil.which("javac")
    if not (javac and shutil.which("mvn")):
        return True
    # `javac 17.0.9`; before 9 it was `javac 1.8.0`, on the other stream.
    answer = subprocess.run([javac, "-version"], capture_output=True, text=True, check=False)
    release = answer.stdout.removeprefix("javac ").split(".")[0].strip()
    return not release.isdigit() or int(release) < OLDEST_JDK


JAVA = (f"a JDK ({OLDEST_JDK} or newer) and Maven", _java_is_missing)
NEEDS: dict[str, tuple[str, Callable[[], bool]]] = {
    "java": JAVA,
    "broker": JAVA,
    "browser": (
        "Chromium and its driver",
        lambda: not (shutil.which("chromium") and shutil.which("chromedriver")),
    ),
    "prometheus": (
        "Prometheus and promtool",
        lambda: not (shutil.which("prometheus") and shutil.which("promtool")),
    ),
    "go": ("Go", lambda: not shutil.which("go")),
    "shared": ("the folder ../shared", lambda: not SHARED.is_dir()),
}
"""Per marker: the reason of a skip, and whether the program is missing."""


OPTIONAL = {"needs docker compose"}
"""Reasons of skips that CI allows: CI has no package registry for these programs."""

LEFT_OUT = () if PROVE else ("prove", *NEEDS, "slow") if QUICK else ("prove",)
"""Markers of tests that this tier leaves out."""


def pytest_configure(config: pytest.Config) -> None:
    """Load optional plugins: the guard of the quick tier, the order of parallel tests."""
    # xdist sets COLUMNS in its processes: tables would wrap otherwise than in a run without xdist.
    os.environ.pop("COLUMNS", None)
    if QUICK:
        config.pluginmanager.import_plugin("tests.no_processes")
    if config.getoption("numprocesses", None):
        config.pluginmanager.import_plugin("tests.scheduling")


def _is_left_out(item: pytest.Item) -> bool:
    """True for a test of a longer tier."""
    return any(map(item.get_closest_marker, LEFT_OUT))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests without garbage collection, which would take a fifth of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Exempt tests and modules from garbage collection: a full one takes seconds."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests of longer tiers; skip tests whose programs are missing."""
    if left_out := [item for item in items if _is_left_out(item)]:
        items[:] = [item for item in items if not _is_left_out(item)]
        config.hook.pytest_deselected(items=left_out)
    for item in items:
        for marker, (requirement, is_missing) in NEEDS.items():
            if item.get_closest_marker(marker) and is_missing():
                item.add_marker(pytest.mark.skip(reason=f"needs {requirement}"))
                break


def _skipped(config: pytest.Config) -> list[pytest.TestReport]:
    """Reports of all skipped tests so far."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    return list(reporter.stats.get("skipped", [])) if reporter else []


def _reason(report: pytest.TestReport) -> str:
    """Reason of a skipped test."""
    where_why = report.longrepr
    return where_why[2].removeprefix("Skipped: ") if isinstance(where_why, tuple) else "no reason"


def _fails_ci(report: pytest.TestReport) -> bool:
    """True for a skip that CI forbids."""
    if _reason(report) in OPTIONAL:
        return False
    return "shared" not in report.keywords or SHARED.is_dir()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """In CI a skipped test fails the run."""
    skipped = _skipped(session.config)
    if CI and session.exitstatus == pytest.ExitCode.OK and any(map(_fails_ci, skipped)):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print one sentence about the skipped tests, and its consequence."""
    skipped = _skipped(config)
    if not skipped:
        return
    counts = Counter(map(_reason, skipped)).most_common()
    parts = ", ".join(f"{count} ({reason})" for reason, count in counts)
    verdict = " CI is set: that is a failure." if CI and any(map(_fails_ci, skipped)) else ""
    noun = "test was" if len(skipped) == 1 else "tests were"
    terminalreporter.write_line(f"{len(skipped)} {noun} skipped: {parts}.{verdict}", yellow=True)


@pytest.fixture(scope="session")
def histories() -> Path:
    """The folder with the dumps of recorded clusters."""
    return ROOT / "tests" / "histories"


@contextmanager
def open_folder() -> Iterator[Path]:
    """Yield a temporary folder that every user may enter.

    A folder below pytest's own would not do. Each start of pytest by the same user closes
    pytest's folder to other users.
    """
    with TemporaryDirectory() as name:
        folder = Path(name).resolve()
        folder.chmod(0o755)
        yield folder


@pytest.fixture
def open_path() -> Iterator[Path]:
    """Temporary folder that every user may enter."""
    with open_folder() as folder:
        yield folder


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of files that stay outside of the repository; mark such a test `shared`."""
    return SHARED
