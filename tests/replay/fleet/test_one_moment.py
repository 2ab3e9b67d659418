"""Answers at the end of an archive that grows: they read one moment."""

from pathlib import Path
from typing import Any

import replay
from controlplane.core.releases.profiles import KIP, Profile
from replay.engine.local_engine import LocalEngine
from replay.fleet.archive_source import ArchiveSource
from replay.fleet.comparisons import DifferenceQuery, MomentRelease
from replay.tables.schemas import STATE_SCHEMAS
from tests.core.logs import config, connector, report, status
from tests.replay.archive.archives import NAME, capture, log_of

ENTRIES = config(connector("a"), connector("b"))


class GrowingArchive(ArchiveSource, frozen=True, dict=True):
    """Archive that gains a record after each opening of its cluster."""

    def local(self, name: str, *, derived: bool = True) -> LocalEngine:
        """Open the cluster, then capture the rest of the log."""
        engine = super().local(name, derived=derived)
        capture(Path(self.where), log_of(ENTRIES))
        return engine


def test_both_releases_are_compared_at_one_moment(tmp_path: Path) -> None:
    """A record that is captured between the openings of the two sides is no difference."""
    capture(tmp_path, log_of(ENTRIES[:1]))
    kip, worker = (MomentRelease(None, Profile.of(release)) for release in (KIP, "3.9"))
    query = DifferenceQuery(kip, worker, connectors=())
    queries = query.queries(GrowingArchive(str(tmp_path)), NAME)
    assert isinstance(queries, list)
    before, after = (state_query.plan.ends for state_query in queries)
    assert before == after


def test_all_views_are_of_one_moment(tmp_path: Path) -> None:
    """Records that are captured while tables are registered are in none of them."""
    capture(tmp_path, log_of(ENTRIES[:1]))
    archive, later = (
        replay.open(tmp_path),
        ENTRIES + status(("status-connector-a", report("RUNNING"))),
    )
    before = {name: archive.state(name) for name in STATE_SCHEMAS}
    views: dict[str, Any] = {}

    def register(name: str, table: Any) -> None:
        capture(tmp_path, log_of(later))
        views[name] = table

    archive.register_views(register)
    assert views == before
    assert archive.state("statuses") != before["statuses"]
