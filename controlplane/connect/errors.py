"""Errors of connectors, converters and Connect's data model."""


class ConnectError(Exception):
    """An error that Connect reports (`ConnectException`)."""


class DataError(ConnectError):
    """A value does not fit its schema, or bytes cannot be converted (`DataException`)."""


class RetriableError(ConnectError):
    """The operation may succeed if it is retried (`RetriableException`)."""
