"""The notebook of an incident review runs, and gives the facts of the recorded incident."""

import json
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest

mpl.use("Agg")  # no window

import matplotlib.pyplot as plt

pytestmark = pytest.mark.slow

NOTEBOOK = Path(__file__).parents[2] / "examples" / "incident_review.ipynb"


def executed(notebook: Path) -> dict[str, Any]:
    """Run the code of each cell in order; return the resulting names."""
    names: dict[str, Any] = {"__name__": "notebook"}
    for cell in json.loads(notebook.read_text("utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"{notebook}:{cell['id']}", "exec"), names)
    return names


@pytest.fixture(scope="module")
def names() -> Any:
    """Names of the notebook; its figures are closed at the end."""
    yield executed(NOTEBOOK)
    plt.close("all")


def test_each_question_has_a_plot(names: dict[str, Any]) -> None:
    """The notebook makes five figures, each with a title and data."""
    figures = [plt.figure(number) for number in plt.get_fignums()]
    assert len(figures) == 5
    for figure in figures:
        (axes,) = figure.axes
        assert axes.get_title()
        assert axes.has_data()


def test_the_review_finds_failures_and_their_causes(names: dict[str, Any]) -> None:
    """Three connectors were configured to fail; each failure follows its creation."""
    assert {failure["connector"] for failure in names["failures"]} == {
        "fails-connector",
        "fails-poll",
        "fails-start",
    }
    assert len(names["suspects"]) == 5
    assert all("config" in str(records) for records in names["suspects"].values())


def test_the_review_finds_offsets_and_spread(names: dict[str, Any]) -> None:
    """Sources went back in each cluster; four tasks had failed at the worst moment."""
    assert {finding["cluster"] for finding in names["rewinds"]} == {"life", "mirror", "odd"}
    failed = [counts["FAILED"] for counts in names["spread"].values()]
    assert (failed[0], max(failed)) == (0, 4)


def test_no_task_is_failed_at_the_end(names: dict[str, Any]) -> None:
    """At the end no task is FAILED; the remaining differences are counted by aspect."""
    assert names["still_failed"] == []
    assert names["by_aspect"]["config"]
    assert sum(names["by_aspect"].values()) == len(names["remaining"])


def test_no_output_is_stored() -> None:
    """The notebook stores no outputs, which would differ in each run."""
    cells = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)
