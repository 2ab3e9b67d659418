"""Check that the Connect group of the workers has read the config topic of this service.

Two Connect clusters on one Kafka cluster may have the same connectors, or none. Then only their
groups differ. The check is best effort. This user may lack the right to describe the group, or the
members advertise other URLs than `connect.url`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import httpx

from controlplane.attached.connect_client import WorkerInfo
from controlplane.core.text.safe_text import safe
from controlplane.logs.log import LogError, LogNotUsable

if TYPE_CHECKING:
    # A program without a Kafka client may import this module.
    from controlplane.logs.kafka.admin.consumer_groups import GroupAdmin, GroupWorker

_UNCHECKED = (
    "the group.id of {} is not checked, because these Connect groups rebalance or have no workers: "
    "{}. Start again later if the group.id may be wrong"
)


async def check_group(
    groups: "GroupAdmin",
    workers: Iterable[WorkerInfo],
    config_topic: str,
    group_id: str | None,
    note: Callable[[str], object],
) -> None:
    """Check that the group of each worker may be that of the config topic.

    `group_id`: group that the settings name; None: they name none. `note` gets a sentence about
    each worker that is not checked because its group may rebalance.

    Raises:
        LogNotUsable: a group has read more than the topic has, or is not `group_id`.
    """
    try:
        members = await groups.connect_groups()
        end = (await groups.ends([(config_topic, 0)]))[config_topic, 0].offset
    except LogError:
        return
    unstable = ", ".join(safe(group) for group, joined in members.items() if not joined)
    for worker in workers:
        joined_groups = dict(_joined(worker.url, members))
        if unstable and not joined_groups:
            note(_UNCHECKED.format(worker.url, unstable))
        if len(joined_groups) != 1:
            continue
        ((group, offset),) = joined_groups.items()
        if group_id is not None and group != group_id:
            raise LogNotUsable(
                f"{worker.url} is a worker of group {safe(group)} instead of {safe(group_id)}: "
                "check --connect-url and group.id"
            )
        if end is not None and offset > end:
            raise LogNotUsable(
                f"{worker.url} is a worker of another Connect cluster than topic {config_topic}: "
                f"its group {safe(group)} has read a config topic up to offset {offset}, and this "
                f"topic ends at {end}; check --connect-url and --config-topic"
            )


def _joined(url: str, members: "Mapping[str, Iterable[GroupWorker]]") -> Iterator[tuple[str, int]]:
    """Groups with a member of this URL, and the member's config offset."""
    for group, group_workers in members.items():
        for worker in group_workers:
            if _address(worker.url) == _address(url):
                yield group, worker.config_offset


def _address(url: str) -> tuple[str, int | None, str]:
    """Host, port and path of a URL; the port is None if it is the default port."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        return "", None, url
    return parsed.host, parsed.port, parsed.path.rstrip("/")
