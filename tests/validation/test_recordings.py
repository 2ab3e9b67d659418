"""Comparison with real workers of ten releases on 197 configs: our answers are equal.

The test compares code and text of a refused creation. It compares the whole result of validation by
its digest: every definition, value, recommendation and error. The documentation has its own digest,
and is compared where it was harvested from that release.
"""

import json

import pytest

from controlplane.core.context import Context
from tests.conftest import sampled
from tests.validation.answers import RecordedValidation, ValidationAnswer, context_of, ours, read
from tests.validation.cases import APACHE, MIRROR, SINK, SOURCE, TRANSFORM, ConfigBody, cases
from tests.validation.recorder import RELEASES


def transformed(kind: str, **own: str | None) -> ConfigBody:
    """Return a config with a transformation of this type."""
    configured = {f"transforms.t.{key}": value for key, value in own.items()}
    return SOURCE | {"transforms": "t", "transforms.t.type": TRANSFORM + kind} | configured


DIFFERENT: tuple[tuple[ConfigBody, tuple[str, ...], str], ...] = (
    (
        MIRROR | {"replication.policy.class": "no.such.Policy"},
        RELEASES,
        "no catalogue lists classes that are no plugins, so we accept any",
    ),
    (
        SINK | {"errors.deadletterqueue.topic.name": None},
        ("3.7.2", "3.8.1", "3.9.1", "4.1.1", "4.3.0"),
        "the worker fails with a NullPointerException; we refuse the null",
    ),
    (
        transformed("ReplaceField$Value", renames=None, include=None),
        RELEASES,
        "the worker fails with a NullPointerException; we refuse the null",
    ),
    (
        transformed("Cast$Value", spec="string,int8"),
        RELEASES[: RELEASES.index("3.8.1")],
        "Kafka's text has a typing error",
    ),
    (
        transformed("InsertField"),
        RELEASES[: RELEASES.index("4.1.1")],
        "Kafka lists nested classes in the order of the Java compiler",
    ),
    (
        SOURCE | {"connector.plugin.version": "1.0"},
        ("4.1.1", "4.3.0"),
        "we do not check the version that a config requests",
    ),
    (
        SOURCE | {"connector.plugin.version": "[1.0,"},
        ("4.1.1", "4.3.0"),
        "we do not check the version that a config requests",
    ),
)
"""Known differences: the config, the releases, and the reason."""

COMPARED = ("2.8.2", "3.4.1", "3.9.1", "4.3.0")
"""Releases that `make test` compares; `make prove` compares all."""

DOCUMENTED = ("2.8.2", "3.9.1", "4.3.0")
"""Releases whose documentation `make test` compares, which takes a run of Java for each."""

MIRRORED_SINCE = "3.4.1"
"""Before, MirrorMaker's connectors shared one definition. We have its keys, but not their order."""

SHARED_DEFINITION = RELEASES[: RELEASES.index(MIRRORED_SINCE)]
"""Releases in which MirrorMaker's connectors shared one definition."""


@pytest.fixture(scope="module")
def recorded() -> list[RecordedValidation]:
    """Recorded answers of all releases."""
    return read()


@pytest.fixture(scope="module", params=sampled(RELEASES, *COMPARED))
def context(request: pytest.FixtureRequest) -> Context:
    """Context of a worker, for each release."""
    return context_of(request.param)


def test_every_case_is_recorded(recorded: list[RecordedValidation]) -> None:
    """The file holds these cases and releases (else: `python -m tests.validation.recorder`)."""
    assert [validation.config for validation in recorded] == list(cases())
    assert all(validation.answers.keys() == set(RELEASES) for validation in recorded)


def test_answers_equal_the_recorded_ones(
    recorded: list[RecordedValidation], context: Context
) -> None:
    """Answers to every config but the listed ones are equal, without documentation."""
    release = context.profile.release
    differing = [
        validation.config
        for validation in recorded
        if _ours(validation, context) != validation.answers[release].without_documentation()
        and not _old_mirror(validation.config, release)
    ]
    expected = [
        config
        for config, releases, _ in DIFFERENT
        if release in releases and not _old_mirror(config, release)
    ]
    assert sorted(differing, key=json.dumps) == sorted(expected, key=json.dumps)


def _ours(validation: RecordedValidation, context: Context) -> ValidationAnswer:
    return ours(validation.config, context).without_documentation()


@pytest.mark.java
@pytest.mark.parametrize("release", sampled(RELEASES, *DOCUMENTED))
def test_documentation_is_kafkas_with_a_harvested_catalogue(
    recorded: list[RecordedValidation], release: str
) -> None:
    """With a harvested catalogue, whole results are equal, except for the listed configs."""
    context = context_of(release, harvested=True)
    expected = [config for config, releases, _ in DIFFERENT if release in releases]
    differing = [
        validation.config
        for validation in recorded
        if ours(validation.config, context) != validation.answers[release]
    ]
    assert sorted(differing, key=json.dumps) == sorted(expected, key=json.dumps)
    assert any(validation.answers[release].documentation for validation in recorded)


@pytest.mark.parametrize("release", sampled(SHARED_DEFINITION, *COMPARED))
def test_old_mirrors_are_refused_alike(recorded: list[RecordedValidation], release: str) -> None:
    """If whole results differ, refusals are still equal."""
    context, excepted = context_of(release), [config for config, _, _ in DIFFERENT]
    compared = [
        validation
        for validation in recorded
        if _old_mirror(validation.config, release) and validation.config not in excepted
    ]
    assert compared
    for validation in compared:
        assert ours(validation.config, context).refused == validation.answers[release].refused


def _old_mirror(config: ConfigBody, release: str) -> bool:
    mirror = f"{APACHE}mirror." in (config.get("connector.class") or "")
    return mirror and release in SHARED_DEFINITION
