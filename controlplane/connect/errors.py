"""Errors that connectors, converters and transformations raise."""


class ConnectError(Exception):
    """A connector cannot continue; its task fails (`ConnectException`)."""


class DataError(ConnectError):
    """Data that cannot be converted, or does not fit its schema (`DataException`)."""


class RetriableError(ConnectError):
    """A failure that may pass (`RetriableException`).

    The runtime calls `SourceTask.poll` and `put` again. With `errors.retry.timeout`, it also calls
    converters and transformations again. A `Source.read` that raises it makes its task FAILED.
    """
