"""Hooks that only compute: `decide` calls them, so that it need not be called twice."""

import json

import pytest

from controlplane.core.commands import AlterOffsets, CreateConnector, OffsetChange, ResetOffsets
from controlplane.core.plan import AskHook, HookSuccess, Plan, Reason, Rejected
from controlplane.core.plugins import Plugins, parse_catalogue
from controlplane.core.plugins.catalogue import Plugin
from tests.core.decisions import PROPERTIES, SOURCE, decided
from tests.core.logs import offsets
from tests.core.offset_cases import ALTERING, STOPPED_A, after, key, page

VALUES = (OffsetChange(page(0), {"row": 1}),)
COMMANDS = (
    AlterOffsets("a", VALUES),
    ResetOffsets("a"),
    CreateConnector("b", PROPERTIES, None, VALUES),
)


def described_as(words: str | None) -> Plugins:
    """Catalogue whose source has this hook; None: the catalogue does not describe it."""
    plugin = {"class": SOURCE, "type": "source"} | ({"alter_offsets": words} if words else {})
    return parse_catalogue(json.dumps([plugin]).encode())


@pytest.mark.parametrize("words", ["accepts", "declines", None])
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: type(command).__name__)
@pytest.mark.parametrize("release", ALTERING)
def test_a_computed_answer_gives_the_same_plan(
    release: str, command: AlterOffsets | ResetOffsets | CreateConnector, words: str | None
) -> None:
    """A plan with a hook that `decide` calls equals the plan with the same given answers."""
    answer = HookSuccess(definite=words == "accepts")
    log = after(STOPPED_A, *offsets((key(0), '{"row":3}')))
    plugins = described_as(words)
    decided_again = decided(log, command, release, plugins=plugins, hooks=(answer, answer))
    computed = decided(log, command, release, plugins=plugins, calls_pure_hooks=True)
    assert computed == decided_again
    if release == "kip":
        assert isinstance(computed, Plan)


@pytest.mark.parametrize("command", COMMANDS[:2], ids=lambda command: type(command).__name__)
def test_a_computed_refusal_refuses_the_command(command: AlterOffsets | ResetOffsets) -> None:
    """The exception that the catalogue describes is the answer."""
    plugins = described_as("raises ConnectException('no such page')")
    refused = decided(STOPPED_A, command, plugins=plugins, calls_pure_hooks=True)
    assert refused == Rejected(Reason.FAILED, "no such page")


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: type(command).__name__)
def test_foreign_code_is_still_asked_for(
    command: AlterOffsets | ResetOffsets | CreateConnector,
) -> None:
    """A hook in Python may be slow, so `decide` asks its caller for the outcome."""
    foreign = Plugin(class_name=SOURCE, type="source", hook=lambda *_: HookSuccess(definite=True))
    question = decided(STOPPED_A, command, plugins=Plugins([foreign]), calls_pure_hooks=True)
    assert isinstance(question, AskHook)
