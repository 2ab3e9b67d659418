"""Every long text in catalogues and recordings is ours or a worker's answer, never copied."""

import json
from collections import Counter

import pytest

from tests.provenance.origins import ORIGINS, is_long, origin
from tests.provenance.settings import descriptions
from tests.provenance.texts import Text, readable_files, texts


@pytest.fixture(scope="module")
def long_texts() -> list[Text]:
    """All texts of more than twelve words."""
    return [
        text for path, content in readable_files() for text in texts(path, content) if is_long(text)
    ]


def test_every_long_text_has_an_origin(long_texts: list[Text]) -> None:
    """No catalogue and no recording has a sentence of Kafka's documentation."""
    unknown = {f"{text.path}: {text.text[:80]}" for text in long_texts if origin(text) is None}
    assert unknown == set()


def test_every_origin_is_needed(long_texts: list[Text]) -> None:
    """Each row of the table has existing texts."""
    counts = Counter(row.name for text in long_texts if (row := origin(text)))
    assert counts.keys() == {row.name for row in ORIGINS}


FOREIGN = (
    "Some sentence of the documentation of others that explains a setting at length, with <code>"
    "examples</code> and with hints that nobody of this project has ever written down."
)
"""Text that stands for a sentence of Kafka's."""

CATALOGUE = json.dumps({"producer": [{"name": "acks", "documentation": FOREIGN}]})
VALIDATED = {"definition": {"name": "acks", "documentation": FOREIGN}, "value": {"errors": []}}
ANSWERED = json.dumps({"asked": ["PUT", "/x"], "answers": [[200, json.dumps([VALIDATED])]]})

ADDED = {
    "controlplane/catalogues/definitions.json": CATALOGUE,
    "controlplane/catalogues/descriptions.json": json.dumps({"producer": {"acks": FOREIGN}}),
    "tests/rest/plugins/recordings.jsonl": ANSWERED + "\n",
    "tests/rest/releases/usual.jsonl.gz": ANSWERED + "\n" + ANSWERED,
    "tests/histories/life.story.jsonl": json.dumps({"answer": {"message": FOREIGN, "more": 1}}),
    "tests/histories/life.more.jsonl": json.dumps({"message": FOREIGN}),
    "tests/histories/life.log.jsonl": json.dumps({"value": json.dumps({"trace": FOREIGN})}),
    "tests/validation/recorded.jsonl": json.dumps({"refused": [[FOREIGN, ["3.9.1"]]]}),
}
"""Files by path; each contains `FOREIGN`."""


@pytest.mark.parametrize("path", ADDED)
def test_a_foreign_sentence_is_noticed(path: str) -> None:
    """Each of these files fails the check of origins."""
    foreign = [text for text in texts(path, ADDED[path]) if is_long(text)]
    assert {text.text for text in foreign} == {FOREIGN}
    assert [origin(text) for text in foreign] == [None] * len(foreign)


def test_our_own_descriptions_are_accepted() -> None:
    """The longest of our descriptions has an origin, also in a recorded answer."""
    ours = max(descriptions().values(), key=len)
    _key, description = texts("tests/x.json", json.dumps({"documentation": ours}))
    assert is_long(description)
    assert origin(description) == ORIGINS[0]
