"""Errors of a worker's JSON converter."""


class Undecodable(ValueError):
    """Kafka throws a DataException: the bytes are no JSON for this release.

    The message names the cause.
    """


class StackOverflow(ValueError):
    """Kafka throws a StackOverflowError: the nesting is deeper than Java's stack allows."""
