"""Phrases: rules for equal words."""

from tests.provenance.phrases import phrases, words


def test_markup_and_punctuation_do_not_count() -> None:
    """Only words count, and dotted names stay whole."""
    text = 'The <code>retry.backoff.ms</code>, "At most" 20%.'
    assert words(text) == ["the", "retry.backoff.ms", "at", "most", "20"]


def test_a_borrowed_sentence_is_found() -> None:
    """Six equal words in a row are a phrase, five are none."""
    borrowed = "Note: the size of the TCP receive buffer."
    assert ("size", "of", "the", "tcp", "receive", "buffer") in set(phrases(borrowed))
    assert list(phrases("one two three four five")) == []
