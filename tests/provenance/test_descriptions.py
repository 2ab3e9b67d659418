"""`controlplane/catalogues/descriptions.json` has one or two own sentences per setting."""

import json
import re

from tests.provenance.settings import FOLDER, HIDDEN, descriptions, settings

FEWEST, MOST = 5, 30
"""Smallest and largest number of words of a description."""

MARKUP = re.compile(r"</?\w+/?>|&\w+;|\s{2}|\n")


def test_each_setting_has_a_description() -> None:
    """Settings and descriptions correspond one to one."""
    assert descriptions().keys() == {
        (scope, name) for scope, name in settings() if not name.startswith(HIDDEN)
    }


def test_descriptions_are_short_and_plain() -> None:
    """Each description has 5 to 30 words, ends with a full stop, and contains no HTML."""
    lengths = {setting: len(text.split()) for setting, text in descriptions().items()}
    assert {setting for setting, words in lengths.items() if not FEWEST <= words <= MOST} == set()
    unfinished = {text for text in descriptions().values() if not text.endswith(".")}
    assert unfinished == set()
    assert {text for text in descriptions().values() if MARKUP.search(text)} == set()


def test_clients_share_their_descriptions() -> None:
    """A setting has one description in all clients that share it, with listed exceptions."""
    own_meaning = {"interceptor.classes", "request.timeout.ms", "retries"}
    texts_by_name: dict[str, set[str]] = {}
    for (scope, name), text in descriptions().items():
        if scope in {"producer", "consumer", "admin", "mirror"}:
            texts_by_name.setdefault(name, set()).add(text)
    assert {name for name, texts in texts_by_name.items() if len(texts) > 1} == own_meaning


def test_the_file_is_in_order() -> None:
    """The file is sorted, one setting per line, so that changes are easy to review."""
    text = (FOLDER / "descriptions.json").read_text(encoding="utf-8")
    content = json.loads(text)
    assert text == json.dumps(content, ensure_ascii=False, indent=2, sort_keys=True) + "\n"
