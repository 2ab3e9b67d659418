"""Errors that connectors, converters and transformations raise."""


class ConnectError(Exception):
    """A connector cannot continue; its task fails (`ConnectException`)."""


class DataError(ConnectError):
    """Data that cannot be converted, or does not fit its schema (`DataException`)."""


class RetriableError(ConnectError):
    """A failure that may pass: the runtime tries the same call again (`RetriableException`)."""
