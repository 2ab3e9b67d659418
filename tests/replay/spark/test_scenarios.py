"""Spark computes the views of scenarios, as a second opinion on the service's fold."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from controlplane.scenario.folds import Folds
from controlplane.scenario.run import play_all, read, report
from controlplane.scenario.scenario_file import parse
from replay.refold import SparkFold
from tests.cli.command_calls import call
from tests.replay.archive.archives import SMALL
from tests.replay.spark.three_answers import SLICED
from tests.scenario.test_failures import STORY, forgetful

pytestmark = pytest.mark.java

SCENARIOS = sorted((Path(__file__).parents[3] / "scenarios").rglob("*.scenario"))


def test_spark_computes_every_view(spark: SparkSession) -> None:
    """Spark's views equal those of the service in all scenarios."""
    scenarios = [read(path) for path in SCENARIOS]
    played = play_all(scenarios, Folds(batch={"spark": SparkFold(spark, SMALL, SLICED)}))
    assert len(scenarios) > 50
    assert [
        text
        for scenario_run in zip(scenarios, played, strict=True)
        if (text := report(*scenario_run))
    ] == []


def test_a_faulty_fold_of_the_service_is_found(spark: SparkSession) -> None:
    """The report shows that Spark's fold is right and the service's is not."""
    scenario = parse(STORY, "x.scenario")
    (played,) = play_all([scenario], Folds(forgetful, {}, {"spark": SparkFold(spark)}))
    assert (
        report(scenario, played)
        == """\
x.scenario:15: view connectors
     connector   tasks  3.4 (w2)  3.7 (w1 w3)
    -orders      0      PAUSED    STOPPED
    +orders      0      PAUSED    PAUSED
    +orders      0      PAUSED    STOPPED   <-- via spark

if every change is wanted, run `make scenarios-rewrite`, then read `git diff`"""
    )


@pytest.fixture
def scenario_file(tmp_path: Path) -> Path:
    path = tmp_path / "a.scenario"
    path.write_text(STORY)
    return path


def test_the_command_uses_spark(spark: SparkSession, scenario_file: Path) -> None:
    """`--spark` and `--via spark` both compare the views with those of Spark."""
    for how in (["--spark"], ["--via", "spark"]):
        result = call("scenario", "run", *how, scenario_file)
        assert (result.code, result.err) == (0, ""), result
        assert "1 scenario, 5 steps: all as written" in result.out


def test_spark_without_java_is_one_error(
    scenario_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--spark` without Java is one error; without the option Java is not needed."""
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    assert call("scenario", "run", scenario_file).code == 0
    result = call("scenario", "run", "--spark", scenario_file)
    assert (result.code, result.err) == (
        2,
        (
            "Error: Spark needs Java 17 or newer, but none is installed: "
            "install it, or set JAVA_HOME\n"
        ),
    )
