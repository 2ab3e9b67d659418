"""Plans as text for users."""

from textwrap import indent

import pytest

from controlplane.core.commands import DeleteConnector, PutConfig, StopConnector
from controlplane.core.plan import (
    AlterGroup,
    AnyAction,
    DeleteGroup,
    Draft,
    FenceProducers,
    Plan,
    Reason,
    Rejected,
    RestartInstances,
    Step,
    WriteOffsets,
)
from controlplane.core.text import plan_text as plan_text_
from controlplane.core.text.plan_text import plan_text
from tests.core.decisions import PROPERTIES, planned
from tests.core.logs import config, connector, read, tasks

LIVE = [connector("orders", **PROPERTIES), *tasks("orders", 1)]
STATE = read(config(*LIVE))


def step_lines(*steps: Step) -> list[str]:
    """The lines of the steps, without the first line."""
    return plan_text(Plan(steps), STATE).splitlines()[1:]


def test_the_text_of_a_stop() -> None:
    """The example in the module's docstring is correct."""
    text = plan_text(planned(LIVE, StopConnector("orders"), "3.9"), STATE)
    assert "commit point: state" in text
    assert indent(text, "    ") in (plan_text_.__doc__ or "")


def test_a_tombstone_has_its_own_sign() -> None:
    """A tombstone has its own sign, and a step's name occurs once."""
    plan = planned(LIVE, DeleteConnector("orders"))
    assert plan_text(plan, STATE).splitlines()[1:3] == [
        "config  config-0  connector-orders     ∅",
        "        config-0  target-state-orders  ∅  (read back)",
    ]


def test_secrets_stay_hidden() -> None:
    """Secrets are hidden: more users see a plan than may read the log."""
    plan = planned(LIVE, PutConfig("orders", {**PROPERTIES, "db.password": "s3cret"}))
    assert '"db.password": "[hidden]"' in plan_text(plan, STATE)
    assert "s3cret" not in plan_text(plan, STATE)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (b'{"db":{"password":"hunter2","password":""}}', '{"db": {"password": ""}}'),
        (b'{"db":{"password":"hunter2"},"db":null}', '{"db": null}'),
        (b'{"password":"x","password":"hunter2"}', '{"password": "[hidden]"}'),
        (b'{"db":{"password":""},"x":1}', '{"db":{"password":""},"x":1}'),
    ],
)
def test_secrets_under_repeated_names_are_hidden(value: bytes, shown: str) -> None:
    """Members with the same name are shown as Jackson reads them: the last one counts."""
    (line,) = step_lines(Step("write", (Draft("t", b"k", value, 0),)))
    assert line == f"write  t-0  k  {shown}"


SECRET = "password=hunter2"
"""Free text with a secret. A config or a request may have it in place of any name."""

OFFSET = Draft("t", b'["c",{"password":"hunter2"}]', b'{"token":"hunter2"}')


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (
            WriteOffsets("c", "t", (OFFSET,), {}),
            (
                'on the cluster of the producer, topic t: ["c",{"password":[hidden]}] '
                '{"token": "[hidden]"}'
            ),
        ),
        (WriteOffsets("c", SECRET, (), {}), "topic password=[hidden]: "),
        (DeleteGroup("c", SECRET), "delete consumer group password=[hidden]"),
        (
            AlterGroup("c", SECRET, ((SECRET, 0, 5),), ((SECRET, 1),)),
            (
                "in consumer group password=[hidden]: set password=[hidden]-0 to 5; "
                "remove password=[hidden]-1"
            ),
        ),
        (FenceProducers("c", (SECRET,)), "fence the producers password=[hidden]"),
        (
            RestartInstances(SECRET, (None, 0)),
            "restart password=[hidden], task password=[hidden]-0",
        ),
        (DeleteGroup("c", "connect-tokens"), "delete consumer group connect-tokens"),
    ],
)
def test_secrets_in_actions_are_hidden(action: AnyAction, words: str) -> None:
    """Secrets in keys, values and names of an outside action are hidden."""
    (line,) = step_lines(Step("write", action=action))
    assert words in line
    assert "hunter2" not in line


def test_secrets_in_assumptions_are_hidden() -> None:
    """Secrets in assumptions are hidden: an assumption quotes the config's class."""
    plan = Plan((), assumed=(f"{SECRET} exists",))
    assert plan_text(plan, STATE).splitlines()[-1] == "assumed: password=[hidden] exists"


def test_names_are_safe_for_a_terminal() -> None:
    """Escapes replace the control characters in names of steps and topics."""
    hostile = "\x1b[31m\u202e"
    step = Step(hostile, (Draft(hostile, b"k", b"1", 0),), read_back=(hostile, "own"))
    text = plan_text(Plan((step,), commit_point=hostile, assumed=(hostile,)), STATE)
    assert all(line.isprintable() for line in text.splitlines())
    assert text.splitlines()[1:] == [
        r"\u001b[31m\u202e  \u001b[31m\u202e-0  k  1  (read \u001b[31m\u202e and own)",
        r"commit point: \u001b[31m\u202e",
        r"assumed: \u001b[31m\u202e",
    ]


def test_a_plan_without_steps_has_no_commit_point() -> None:
    """A plan without steps has no commit point."""
    plan = Plan((), commit_point="config", assumed=("nobody\nlooks",))
    assert plan_text(plan, STATE) == "nothing has to be done\nassumed: nobody\\nlooks"


def test_a_refusal_has_its_reason() -> None:
    """The text has the reason of a refusal, without secrets."""
    refusal = Rejected(Reason.INVALID, "Connector config {name=a, db.password=s3cret} is\nwrong")
    expected = "refused: Connector config {name=a, db.password=[hidden]} is\\nwrong"
    assert plan_text(refusal, STATE) == expected
    assert plan_text(Rejected(Reason.NO_SUCH_TASK, None), STATE) == "refused: There is no such task"


def test_undecodable_bytes_are_escaped() -> None:
    """Undecodable bytes and control characters are escaped; long values are cut."""
    (line,) = step_lines(Step("write", (Draft("own", b"\xff\x1b[2J", b"[" * 500, 3),)))
    assert line.startswith("write  own-3  \\xff\\u001b[2J  [[[")
    assert line.endswith("[…")
    assert len(line) < 450


def test_reads_waits_and_undo_are_named() -> None:
    """The text names a topic that is read, a wait, and the undo of a failure."""
    draft = Draft("connect-configs", b"k", b"1")
    undo = Step("undo-write", (Draft("connect-configs", b"k", None),))
    assert step_lines(
        Step("write", (draft,), read_back=("connect-offsets", "own"), best_effort=True, undo=undo)
    ) == [
        "write         config-0  k  1  (read offsets and own, go on even if it fails)",
        "(undo-write)  config-0  k  ∅  (if a step fails)",
    ]


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (
            AlterGroup("a", "g", (("t", 0, 5), ("t", 1, 7)), (("u", 2),)),
            "in consumer group g: set t-0 to 5, t-1 to 7; remove u-2",
        ),
        (DeleteGroup("a", "g"), "delete consumer group g"),
        (FenceProducers("a", ("g-a-0", "g-a-1")), "fence the producers g-a-0, g-a-1"),
        (RestartInstances("a", (None, 1)), "restart a, task a-1, where it runs"),
    ],
)
def test_external_actions_are_described(action: AnyAction, words: str) -> None:
    """An outside action is described in words in place of a record."""
    assert step_lines(Step("fence", action=action)) == [f"fence  -    {words}"]
    plan = Plan((Step("fence", action=action), Step("write", (Draft("own", b"k", b"v", 0),))))
    first, *_ = plan_text(plan, STATE).splitlines()
    assert first == "1 record and 1 action outside of the log, in 2 steps"
