"""Arguments of the replay API that are no text: each error names what is expected."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import replay
from tests.replay.fleet.fleets import CLUSTERS, fleet_in

LIST: Any = ["orders"]
BYTES: Any = b"orders"
NUMBER: Any = 7


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Archive of one cluster."""
    folder = tmp_path_factory.mktemp("archive") / "fleet"
    return replay.open(str(fleet_in(folder, {"roll": CLUSTERS["roll"]})))


NO_TEXTS: tuple[tuple[Callable[[Any], object], str], ...] = (
    (
        lambda archive: archive.history(LIST),
        r"a name is a text, such as 'orders', not \['orders'\]",
    ),
    (lambda archive: archive.history("pages", None), "a name is a text, .* not None"),
    (lambda archive: archive.timeline(BYTES), "a name is a text, .* not 111"),
    (lambda archive: archive.timeline(NUMBER), "a name is a text, .* not 7"),
    (lambda archive: archive.timeline([LIST]), r"a name is a text, .* not \['orders'\]"),
    (lambda archive: archive.diff("config@3", connectors=NUMBER), "a name is a text, .* not 7"),
    (lambda archive: archive.diff(to_cluster=LIST), r"a cluster is a text, such as 'blue', not \["),
    (lambda archive: archive.diff(LIST), r"a moment is a text, such as '2026-.* not \['orders'\]"),
    (lambda archive: archive.state(LIST), r"a table is a text, such as 'tasks', not \['orders'\]"),
    (lambda archive: archive.state(release=NUMBER), "a release is a text, such as '3.9', not 7"),
    (lambda archive: archive.audit(release=[NUMBER]), "a release is a text, .* not 7"),
    (lambda archive: archive.compat("3.9", NUMBER), "a release is a text, .* not 7"),
    (lambda archive: archive.audit(as_of=NUMBER), "a moment is a text, .* not 7"),
)


@pytest.mark.parametrize(("ask", "message"), NO_TEXTS, ids=map(str, range(len(NO_TEXTS))))
def test_arguments_are_texts(archive: Any, ask: Callable[[Any], object], message: str) -> None:
    """A list in place of a name, or a number, raises a TypeError that names the valid form."""
    with pytest.raises(TypeError, match=f"^{message}"):
        ask(archive)


def test_clusters_are_texts(tmp_path: Path) -> None:
    """Names of clusters are checked before the archive is read."""
    for clusters in (NUMBER, [LIST]):
        with pytest.raises(TypeError, match=r"^a name is a text, such as 'orders', not "):
            replay.open(str(tmp_path), clusters=clusters)
    with pytest.raises(ValueError, match=r"^clusters is empty: give a name, or leave it out"):
        replay.open(str(tmp_path), clusters=[])


def test_a_filter_without_a_result_is_refused(archive: Any, tmp_path: Path) -> None:
    """An empty list of connectors does not mean all of them."""
    diff = partial(archive.diff, "config@3")
    write_diff = partial(archive.write_diff, tmp_path / "new", "config@3")
    for ask in (archive.timeline, diff, write_diff):
        with pytest.raises(ValueError, match=r"^connectors is empty: give a name, or leave it out"):
            ask(connectors=[])
    with pytest.raises(ValueError, match=r"^no connector is named: give one or more"):
        archive.history()


def test_tables_are_texts(archive: Any, tmp_path: Path) -> None:
    """A wrong table is refused before a folder is created."""
    with pytest.raises(TypeError, match=r"^a name is a text, such as 'orders', not 7"):
        archive.write_state(tmp_path / "state", tables=NUMBER)
    assert not [*tmp_path.iterdir()]
