"""Execution of a migration: each step, its undoing, and the journal between them.

The journal notes each step twice: as begun before its effect, and as done after it. A crash between
the two leaves a step that may have had its effect; the next run repeats it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import click
import msgspec

from controlplane.client.connectors.connector_summary import RUNNING, STOPPED, summary, target_state
from controlplane.client.connectors.offset_lists import OffsetEntry, alteration, present_offsets
from controlplane.client.connectors.wait import (
    IS_GONE,
    wait_for,
    wait_until_running,
    wait_until_stopped,
)
from controlplane.client.http.api import Api, connector
from controlplane.client.http.request_errors import Declined, Unavailable, WaitTimedOut
from controlplane.client.migration.migration_check import has_same_config
from controlplane.client.migration.migration_journal import MigrationJournal
from controlplane.client.migration.migration_plan import (
    END,
    GAPS,
    TARGET_VERBS,
    UNDO_GAPS,
    Migration,
    MigrationStep,
)
from controlplane.terminal.command_errors import InputRefused
from controlplane.terminal.output import note

STEADY_PAUSE_S = 0.6
"""Pause in seconds between two reads of offsets that must be equal. A worker's answer can lack an
offset for some 0.4 s after it was written."""

StepAction = Callable[[], Awaitable[Mapping[str, Any]]]
"""Executes a step; returns the fields of the journal that it has found out."""


MigrationGap = Callable[[str], Awaitable[None]]
"""Called with the name of each gap between a write of the journal and an effect."""


class CopyDiffers(click.ClickException):
    """The copy is not equal to the original, or the original has changed in the meantime."""


class OffsetsMoved(click.ClickException):
    """The started copy has processed records, so the migration can no longer be undone."""


class JournalNotWritten(Unavailable):
    """The journal cannot be written during a migration; the migration stops, as after a crash."""


async def _nothing(_: str) -> None:
    """Do nothing in a gap (the default)."""


class MigrationRun:
    """Runs a migration to its end, or undoes it."""

    def __init__(  # noqa: PLR0913 - by name only
        self,
        migration: Migration,
        journal: MigrationJournal,
        source: Api,
        target: Api,
        *,
        timeout_s: float,
        at_gap: MigrationGap = _nothing,
    ) -> None:
        """`timeout_s`: longest time for tasks to end or start. `at_gap` is for tests."""
        self.migration = migration
        self._journal = journal
        self._source = source
        self._target = target
        self._timeout_s = timeout_s
        self._at_gap = at_gap
        self._may_have_effect = False
        """True if a request of the present step was accepted, or if an earlier run began it."""
        self._actions: dict[MigrationStep, StepAction] = {
            MigrationStep.STOP: self._stop,
            MigrationStep.READ: self._read,
            MigrationStep.CREATE: self._create,
            MigrationStep.OFFSETS: self._set_offsets,
            MigrationStep.VERIFY: self._verify,
            MigrationStep.START: self._start,
            MigrationStep.DELETE: self._delete,
        }
        self._undoings: dict[MigrationStep, Callable[[], Awaitable[None]]] = {
            MigrationStep.START: self._stop_copy,
            MigrationStep.OFFSETS: self._restore_offsets,
            MigrationStep.CREATE: self._delete_copy,
            MigrationStep.STOP: self._start_original,
        }

    async def run(self, report: Callable[[MigrationStep], None]) -> None:
        """Do all open steps; if one before the deletion fails, undo everything.

        `report` is called before each step.

        Raises:
            InputRefused: the journal cannot be written; no step has begun.
            ClickException: a step failed. The message says what is undone, and what is left.
        """
        self._journal.write(self.migration)  # no step begins unless the journal can be written
        try:
            await self._run(report)
        except asyncio.CancelledError:
            note(f"the migration of {self.migration.name} is not finished: {self._retry_advice}")
            raise

    async def _run(self, report: Callable[[MigrationStep], None]) -> None:
        if self.migration.failure is not None:
            await self._undo(Declined(self.migration.failure))
        for step in self.migration.open_steps:
            report(step)
            try:
                await self._execute(step)
            except JournalNotWritten:
                raise  # without a journal, an undo could not be continued after a crash
            except click.ClickException as failure:
                await self._fail(step, failure)
        await self._at_gap(END)
        self._journal.remove()

    # --- journal ------------------------------------------------------------------------------

    def _save(self, **fields: Any) -> None:
        """Store changed fields of the migration.

        Raises:
            JournalNotWritten: the file keeps the earlier fields, from which the next run continues.
        """
        self.migration = msgspec.structs.replace(self.migration, **fields)
        try:
            self._journal.write(self.migration)
        except InputRefused as failure:
            raise JournalNotWritten(f"{failure.message}; {self._retry_advice}") from None

    async def _execute(self, step: MigrationStep) -> None:
        """Execute a step; the journal notes it before its effect, and again after it."""
        self._may_have_effect = step in self.migration.begun
        if not self._may_have_effect:
            self._save(begun=(*self.migration.begun, step))
        await self._at_gap(GAPS[step].before)
        fields = await self._actions[step]()
        await self._at_gap(GAPS[step].after)
        self._save(done=(*self.migration.done, step), **fields)

    async def _fail(self, step: MigrationStep, failure: click.ClickException) -> None:
        """Undo what was done, unless the copy works already.

        Raises:
            ClickException: always; its message has that of `failure`, and the outcome.
        """
        if step is MigrationStep.DELETE:
            raise _with_words(
                failure, f"all steps before the deletion are done: {self._retry_advice}"
            ) from None
        if isinstance(failure, Declined) and not self._may_have_effect:
            # The cluster has refused: this step had no effect, so it needs no undoing.
            self._save(
                begun=tuple(earlier for earlier in self.migration.begun if earlier is not step)
            )
        self._save(failure=failure.message)
        await self._undo(failure)

    @property
    def _retry_advice(self) -> str:
        return f"run the same command again to continue (journal: {self._journal.path})"

    # --- steps --------------------------------------------------------------------------------

    async def _change(self, api: Api, method: str, path: str, body: Any = None) -> None:
        """Send a request that changes a cluster; note that it was accepted."""
        await api.send(method, path, body)
        self._may_have_effect = True

    async def _stop(self) -> Mapping[str, Any]:
        await self._change(self._source, "PUT", connector(self.migration.name, "stop"))
        await self._wait_until_stopped(self._source)
        return {}

    async def _wait_until_stopped(self, api: Api) -> None:
        """Wait until the tasks have ended."""
        await wait_until_stopped(api, self.migration.name, self._timeout_s)

    async def _read(self) -> Mapping[str, Any]:
        return {"offsets": [dict(entry) for entry in await self._steady(self._source)]}

    async def _steady(self, api: Api) -> list[OffsetEntry]:
        """Offsets of a stopped connector, read until two answers are equal.

        Raises:
            WaitTimedOut: they keep changing.
        """
        offsets = await present_offsets(api, self.migration.name)
        if api.is_log:
            return offsets
        deadline = asyncio.get_running_loop().time() + self._timeout_s
        while True:
            await asyncio.sleep(STEADY_PAUSE_S)
            before, offsets = offsets, await present_offsets(api, self.migration.name)
            if not alteration(before, offsets):
                return offsets
            if asyncio.get_running_loop().time() > deadline:
                raise WaitTimedOut(
                    f"the offsets of {self.migration.name} keep changing at {api.name}: "
                    "check that no other program writes them"
                )

    async def _create(self) -> Mapping[str, Any]:
        """Create the copy, stopped. A copy that an interrupted creation has left is taken over.

        Raises:
            Declined: the target has another config under this name. Or it has this connector,
                although no earlier run began to create it: it is another client's.
        """
        name = self.migration.name
        if await summary(self._target, name) is not None:
            if not await has_same_config(self._target, self.migration):
                raise Declined(f"{self._target.name} has a connector {name} with another config")
            if self._may_have_effect:  # an earlier run began this step
                return {}
            raise Declined(f"another client has created {name} at {self._target.name} meanwhile")
        body: dict[str, Any] = {
            "name": name,
            "config": self.migration.config,
            "initial_state": STOPPED,
        }
        if await self._takes_initial_offsets(body):
            self._save(previous=[])
            body["initial_offsets"] = self.migration.offsets
        await self._change(self._target, "POST", "/connectors", body)
        await self._wait_until_stopped(self._target)
        return {}

    async def _takes_initial_offsets(self, body: Mapping[str, Any]) -> bool:
        """True if our service can set the offsets while it creates the connector (KIP-995).

        False if the plan removes offsets of an earlier connector of this name: an undo could not
        restore them. In this case, `_set_offsets` notes these offsets after the creation, and then
        alters them. The offsets of a sink are set afterwards, too, because both clusters may share
        its group.
        """
        original = await summary(self._source, self.migration.name)
        is_source = original is not None and original.type == "source"
        if not (is_source and self._target.server.ours and self.migration.offsets):
            return False
        creation = {**body, "initial_offsets": self.migration.offsets}
        planned = await self._target.send("POST", "/connectors", creation, dry_run=True)
        records = (record for step in planned.body["steps"] for record in step.get("records", ()))
        return all(record["value"] is not None for record in records)

    async def _set_offsets(self) -> Mapping[str, Any]:
        """Set the offsets of the copy; for undoing, the journal notes the previous ones first."""
        now = await self._steady(self._target)
        if self.migration.previous is None:
            self._save(previous=[dict(entry) for entry in now])
        await self._alter(now, self.migration.offsets or [])
        return {}

    async def _alter(self, now: list[OffsetEntry], target_offsets: Sequence[OffsetEntry]) -> None:
        """Alter the offsets of the copy from `now` to `target_offsets`."""
        altered = alteration(now, target_offsets)
        if altered:
            path = connector(self.migration.name, "offsets")
            await self._change(self._target, "PATCH", path, {"offsets": altered})

    async def _verify(self) -> Mapping[str, Any]:
        """Compare the copy with the original, which must not have changed meanwhile.

        Raises:
            CopyDiffers: they differ.
        """
        offsets, name = self.migration.offsets or [], self.migration.name
        for api in (self._source, self._target):
            connector = await summary(api, name)
            if connector is None:
                raise CopyDiffers(f"{name} has disappeared from {api.name}")
            if dict(connector.info["config"]) != self.migration.config:
                raise CopyDiffers(f"the config of {name} has changed at {api.name}")
            if await target_state(api, connector) != STOPPED:
                raise CopyDiffers(f"{name} is no longer stopped at {api.name}")
            if alteration(await self._steady(api), offsets):
                raise CopyDiffers(f"the offsets of {name} differ at {api.name}")
        return {}

    async def _start(self) -> Mapping[str, Any]:
        await self._set_state(self._target)
        return {}

    async def _set_state(self, api: Api) -> None:
        """Give a stopped connector the target state that it had before the migration.

        If it is RUNNING, wait until connector and tasks run (`wait_until_running`).
        """
        verb = TARGET_VERBS[self.migration.state]
        await self._change(api, "PUT", connector(self.migration.name, verb))
        if self.migration.state == RUNNING:
            await wait_until_running(api, self.migration.name, self._timeout_s)

    async def _delete(self) -> Mapping[str, Any]:
        if await summary(self._source, self.migration.name) is not None:
            await self._source.send("DELETE", connector(self.migration.name))
        return {}

    # --- undoing ------------------------------------------------------------------------------

    async def _undo(self, failure: click.ClickException) -> None:
        """Undo the steps that have begun; the original stays stopped while the copy may run.

        Raises:
            ClickException: always; it has the message of `failure`, and says what is undone.
        """
        left: list[str] = []
        for step in self.migration.steps_to_undo:
            if left and step is MigrationStep.STOP and MigrationStep.START in self.migration.begun:
                break  # the copy may still run: the original must not
            await self._at_gap(UNDO_GAPS[step].before)
            try:
                await self._undoings[step]()
            except OffsetsMoved as moved:
                self._journal.remove()
                raise _with_words(failure, moved.message) from None
            except click.ClickException as other:
                left.append(f"{step.value} ({other.message})")
                continue
            await self._at_gap(UNDO_GAPS[step].after)
            self._save(undone=(*self.migration.undone, step))
        if left:
            raise Unavailable(
                f"{failure.message}; not undone: {', '.join(left)}; {self._retry_advice}"
            ) from None
        self._journal.remove()
        raise _with_words(failure, "everything is as before") from None

    async def _stop_copy(self) -> None:
        """Stop the copy, if it has not processed anything yet.

        Raises:
            OffsetsMoved: it has.
        """
        if await self._is_gone():
            return
        if await self._moved():
            raise self._offsets_moved()
        await self._target.send("PUT", connector(self.migration.name, "stop"))
        await self._wait_until_stopped(self._target)
        # The copy may have processed records between the first check and the stop.
        if await self._moved():
            await self._target.send(
                "PUT", connector(self.migration.name, TARGET_VERBS[self.migration.state])
            )
            raise self._offsets_moved()

    async def _is_gone(self) -> bool:
        return await summary(self._target, self.migration.name) is None

    async def _moved(self) -> bool:
        now = await present_offsets(self._target, self.migration.name)
        return bool(alteration(self.migration.offsets or [], now))

    def _offsets_moved(self) -> OffsetsMoved:
        name = self.migration.name
        return OffsetsMoved(
            f"{name} has already processed records at {self._target.name}, so nothing is undone: "
            f"it stays there, and {self._source.name} keeps the original stopped"
        )

    async def _restore_offsets(self) -> None:
        if self.migration.previous is None or await self._is_gone():
            return  # nothing was changed yet, or another client has deleted the copy
        await self._alter(await self._steady(self._target), self.migration.previous)

    async def _delete_copy(self) -> None:
        if await self._is_gone():
            return
        if not await has_same_config(self._target, self.migration):
            raise Declined(
                f"the config of {self.migration.name} has changed at {self._target.name}: delete "
                "the connector there"
            )
        await self._restore_offsets()  # also replaces offsets that the creation has set
        await self._target.send("DELETE", connector(self.migration.name))
        if not self._target.server.ours:
            await wait_for(self._target, self.migration.name, IS_GONE, self._timeout_s)

    async def _start_original(self) -> None:
        verb = TARGET_VERBS[self.migration.state]
        await self._source.send("PUT", connector(self.migration.name, verb))


def _with_words(failure: click.ClickException, words: str) -> click.ClickException:
    """The same failure with more words, and with its exit code."""
    return type(failure)(f"{failure.message}; {words}")
