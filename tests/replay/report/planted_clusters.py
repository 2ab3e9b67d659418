"""Facts of clusters for report pages, and handwritten logs (`PlantedLog`)."""

from collections.abc import Sequence

from controlplane.core.entry import Entry
from controlplane.core.order import in_order
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import Topics
from replay.doubts import MayBeOlder, never_older
from replay.report import ClusterFacts, PageLimits, ReportTask
from replay.report.fleet_facts import RecordStream
from tests.replay.audit.planted_log import MINUTE, PAUSED, STARTED, PlantedLog

WIDE = PageLimits.shared_by(1)
GOALS = ("3.4", "3.9", "4.3")
MARKUP_NAMES = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "a' onmouseover='alert(1)",
    "</style></title></svg><b>",
    "&lt;script&gt;",
    "\u202etxt\x00\x1b[31m",
    "",
)
"""Names with markup, and other names that attack a page."""


def cluster_facts(
    entries: Sequence[Entry],
    cluster: str = "lab",
    limits: PageLimits = WIDE,
    goals: Sequence[str] = GOALS,
    *,
    exactly_once: bool = False,
    release: str = "3.9",
    may_be_older: MayBeOlder = never_older,
) -> ClusterFacts:
    """Report facts of a cluster whose workers run `release`; `goals` are releases to change to."""
    look = ReportTask(Profile.of(release), tuple(map(Profile.of, goals)), limits)
    log = in_order(entries)
    return look(RecordStream(cluster, Topics(), exactly_once, log, may_be_older=may_be_older))


def of(log: PlantedLog) -> list[Entry]:
    """Records of a handwritten log."""
    return list(log.cluster("lab").entries)


def busy() -> PlantedLog:
    """Log of a source with a change, a pause, a restart, a failure, a later offset and a reset."""
    log = PlantedLog().running("a").offset("a", {"position": 1}).wait(MINUTE).config("a", rows="2")
    log.wait(MINUTE).target("a", PAUSED).status("connector-a", "PAUSED").wait(MINUTE)
    log.target("a", STARTED).status("connector-a", "RUNNING").wait(MINUTE).restart("a")
    log.wait(MINUTE).status("task-a-0", "FAILED", trace="broken").wait(MINUTE)
    return log.offset("a", {"position": 5}).wait(MINUTE).offset("a", None)


def called(name: str) -> PlantedLog:
    """Log with this name for a connector, topic, worker and offset, and as a setting's value."""
    log = PlantedLog().running(name).config(name, evil=name).active(name, name)
    log.status(f"task-{name}-0", "FAILED", name, trace=name).offset(name, {name: 1}, file=name)
    return log.offset(name, {name: 3}, file=name).target(name, {"state": name}).deleted(name)
