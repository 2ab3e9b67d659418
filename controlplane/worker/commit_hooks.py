"""Hooks of a source after a commit. What they raise is reported only: Kafka logs it, too."""

from collections.abc import Sequence

from controlplane.projection.notices import Notices
from controlplane.worker.source_drivers import Acknowledged, SourceDriver


async def tell_acknowledged(
    driver: SourceDriver, records: Sequence[Acknowledged], notices: Notices
) -> None:
    """Call the task's `commit_record` or `acked` for each record."""
    try:
        await driver.acknowledged(records)
    except Exception as failure:  # noqa: BLE001 - a connector may raise anything
        notices.warning("acked_hook_failed", reason=repr(failure))


async def tell_committed(driver: SourceDriver, notices: Notices) -> None:
    """Call the task's `commit` or `committed`."""
    try:
        await driver.committed()
    except Exception as failure:  # noqa: BLE001 - a connector may raise anything
        notices.warning("commit_hook_failed", reason=repr(failure))
