"""Comparison with real workers of ten releases: classes that they cannot find or instantiate."""

import json

import pytest

from tests.conftest import sampled
from tests.validation import class_cases
from tests.validation.answers import CLASSES_FILE, RecordedValidation, context_of, ours, read
from tests.validation.cases import ConfigBody
from tests.validation.recorder import RELEASES
from tests.validation.test_recordings import DOCUMENTED

NO_PLUGIN = ("java.lang.String", *(f"lab.{outer}" for outer in class_cases.OUTER))
"""Existing classes that are no plugins. We treat the first as missing, others as abstract."""


@pytest.fixture(scope="module")
def recorded() -> list[RecordedValidation]:
    """Recorded answers about classes."""
    return read(CLASSES_FILE)


def is_different(config: ConfigBody) -> bool:
    """True if our refusal has another text than the workers'.

    Before 3.7, workers accept some of these classes.
    """
    return bool({*config.values()} & {*NO_PLUGIN}) and config["connector.class"] == "FileStreamSink"


def test_every_case_is_recorded(recorded: list[RecordedValidation]) -> None:
    """The file holds these cases (else: `python -m tests.validation.recorder classes`)."""
    configs = {json.dumps(validation.config) for validation in recorded}
    assert configs == {json.dumps(config) for config in class_cases.cases()}


@pytest.mark.parametrize("release", RELEASES)
def test_a_class_that_a_worker_cannot_find_or_make_is_refused_in_its_words(
    recorded: list[RecordedValidation], release: str
) -> None:
    """Whole results are equal for converters, transformations, predicates and connectors."""
    context = context_of(release, class_cases.CATALOGUE)
    differing = [
        validation.config
        for validation in recorded
        if release in validation.answers
        and ours(validation.config, context).without_documentation()
        != validation.answers[release].without_documentation()
    ]
    assert [config for config in differing if not is_different(config)] == []


@pytest.mark.java
@pytest.mark.parametrize("release", sampled(RELEASES, *DOCUMENTED))
def test_documentation_is_kafkas_with_a_harvested_catalogue(
    recorded: list[RecordedValidation], release: str
) -> None:
    """With a harvested catalogue, each whole result equals the worker's."""
    context = context_of(release, class_cases.CATALOGUE, harvested=True)
    differing = [
        validation.config
        for validation in recorded
        if release in validation.answers
        and ours(validation.config, context) != validation.answers[release]
    ]
    assert [config for config in differing if not is_different(config)] == []
