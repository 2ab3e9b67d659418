"""Conditional puts: writes to S3 that fail if the name is taken (`If-None-Match: *`).

Arrow cannot send this header, so botocore sends these requests. The endpoint, the keys and the
addressing are those of Arrow's file system. A request may be repeated or interrupted after its
write. Each write therefore has the id of its writer as metadata, which tells its outcome.
"""

import ssl
from contextlib import suppress
from functools import cached_property
from threading import Lock
from time import sleep
from typing import Any
from uuid import uuid4

from pyarrow import fs

from replay.archive.stores.store_errors import answer_in, why_not_of_client
from replay.errors import NotWritable, WriteUncertain

_WRITER = "writer"
"""Metadata of a written object: the id of its writer."""

# HTTP statuses of answers.
_BAD_REQUEST = 400
_NOT_FOUND = 404
_CONFLICT = 409
_PRECONDITION_FAILED = 412
_SERVER_ERROR = 500
_NOT_IMPLEMENTED = 501

_TAKEN = {_PRECONDITION_FAILED, _CONFLICT}
"""Answers to a conditional put of a taken name; S3 answers 409 to simultaneous requests."""

CONFLICTS = 4
"""Number of puts of one object that end in a conflict, until the writer gives up.

S3 asks its clients to repeat these puts. The other request ends within a second or so.
"""

CONFLICT_S = 0.25
"""Number of seconds before such a put is repeated."""

_UNSUPPORTED = {_BAD_REQUEST, _NOT_IMPLEMENTED}
"""Answers of servers that do not support the header."""

_OTHER_CODES = {
    "AuthorizationHeaderMalformed",
    "ExpiredToken",
    "InvalidToken",
    "RequestTimeout",
    "TokenRefreshRequired",
}
"""Error codes of S3 with the status 400 that say nothing about the header."""

CONNECT_S = 5
"""Longest wait for a connection in seconds, unless Arrow's options name one.

With three attempts, an unreachable endpoint is reported after 15 s, not 3 minutes.
"""

ANSWER_S = 30
"""Longest wait for an answer in seconds, unless Arrow's options name one.

A manifest takes far less. After a put without an answer, `ConditionalPuts.put` reads which writer
wrote the object.
"""


class ConditionalPuts:
    """Conditional puts into one bucket. A pickled copy tries the store anew."""

    def __init__(self, where: str, system: fs.S3FileSystem, bucket: str) -> None:
        self._where = where
        self._system = system
        self._bucket = bucket
        self._is_supported = False
        self._trial = Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return ConditionalPuts, (self._where, self._system, self._bucket)

    def obstacle(self, folder: str) -> str | None:
        """Reason against conditional puts; None if the store supports them.

        The trial writes an object into the folder twice, and removes it.

        Raises:
            NotWritable: an outage of the store, or no permission.
        """
        with self._trial:
            if self._is_supported:
                return None
            reason = self._obstacle_of_client() or self._try(f"{folder}/conditional-put-{uuid4()}")
            self._is_supported = reason is None
            return reason

    def _obstacle_of_client(self) -> str | None:
        try:
            _ = self._client
        except ModuleNotFoundError as missing:
            return f"the package {missing.name} is missing"
        except ValueError as error:  # botocore refuses some host names, such as `object_store`
            return f"botocore cannot send conditional puts ({error})"
        return None

    def _try(self, name: str) -> str | None:
        from botocore.exceptions import ParamValidationError  # noqa: PLC0415

        try:
            for _ in range(2):
                error = self._error_of_put(name, b"", "")
                if error is None:
                    continue
                if isinstance(error, ParamValidationError):  # botocore before 1.36
                    return "this version of botocore cannot send conditional puts (If-None-Match)"
                status = _status(error)
                if status in _TAKEN:
                    return None
                if status in _UNSUPPORTED and _code(error) not in _OTHER_CODES:
                    return "the store refuses conditional puts (If-None-Match)"
                raise self._not_writable(error)
            return "the store ignores the condition of puts (If-None-Match)"
        finally:
            with suppress(*_errors()):  # without the permission to delete, the object remains
                self._client.delete_object(Bucket=self._bucket, Key=name)

    def put(self, name: str, content: bytes) -> bool:
        """Write an object; return False if the name is taken.

        Raises:
            NotWritable: no permission, or another refusal.
            WriteUncertain: the store has not answered, and does not tell the outcome.
        """
        writer, puts = str(uuid4()), 0
        while True:
            puts += 1
            error = self._error_of_put(name, content, writer)
            if error is None:
                return True
            status = _status(error)
            # An earlier attempt without an answer may still take effect, whatever the last answer.
            is_decided = _is_first_answer(error) and status is not None and status < _SERVER_ERROR
            if is_decided and status not in _TAKEN:
                raise self._not_writable(error)
            try:
                actual = self._writer(name)
            except NotWritable as outage:
                raise WriteUncertain(str(outage)) from None
            if actual is not None:
                return actual == writer
            if is_decided and status == _PRECONDITION_FAILED:
                return False  # the other object has been removed since
            if not is_decided or puts >= CONFLICTS:
                raise WriteUncertain(str(self._not_writable(error)))
            sleep(CONFLICT_S)

    def _error_of_put(self, name: str, content: bytes, writer: str) -> Exception | None:
        try:
            self._client.put_object(
                Bucket=self._bucket,
                Key=name,
                Body=content,
                IfNoneMatch="*",
                Metadata={_WRITER: writer},
            )
        except _errors() as error:
            return error
        return None

    def _writer(self, name: str) -> str | None:
        """Id of the writer of an object, empty if unknown; None if the object does not exist."""
        try:
            head = self._client.head_object(Bucket=self._bucket, Key=name)
        except _errors() as error:
            if _status(error) == _NOT_FOUND:
                return None
            raise self._not_writable(error) from None
        writer: str = head["Metadata"].get(_WRITER, "")
        return writer

    def _not_writable(self, error: Exception) -> NotWritable:
        return NotWritable(f"{self._where} cannot be written {why_not_of_client(error)}")

    @cached_property
    def _client(self) -> Any:
        return client(self._system)


def client(system: fs.S3FileSystem) -> Any:
    """Client of botocore with the options of Arrow's file system, taken from its pickled form."""
    from botocore import UNSIGNED  # noqa: PLC0415 - the import takes 0.3 s
    from botocore.config import Config  # noqa: PLC0415
    from botocore.session import Session  # noqa: PLC0415

    _, (options,) = system.__reduce__()
    endpoint = options["endpoint_override"]
    if endpoint and "://" not in endpoint:
        endpoint = f"{options['scheme']}://{endpoint}"
    style = "path" if endpoint else "auto"
    if options["force_virtual_addressing"]:
        style = "virtual"
    return Session().create_client(
        "s3",
        region_name=options["region"],
        endpoint_url=endpoint or None,
        aws_access_key_id=options["access_key"],
        aws_secret_access_key=options["secret_key"],
        aws_session_token=options["session_token"] or None,
        verify=ssl.get_default_verify_paths().cafile,
        config=Config(
            signature_version=UNSIGNED if options["anonymous"] else None,
            s3={"addressing_style": style},
            retries={"mode": "standard"},
            connect_timeout=_limit_s(options["connect_timeout"], CONNECT_S),
            read_timeout=_limit_s(options["request_timeout"], ANSWER_S),
            # Arrow uses neither proxies nor the endpoints in AWS's configuration files.
            proxies={},
            ignore_configured_endpoint_urls=True,
        ),
    )


def _limit_s(option: float, default_s: float) -> float:
    """Limit in Arrow's options; a number that is not positive means its default."""
    return option if option > 0 else default_s


def _errors() -> tuple[type[Exception], ...]:
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415

    return BotoCoreError, ClientError


def _is_first_answer(error: Exception) -> bool:
    """True if botocore has sent the request once; it repeats requests without an answer."""
    retries: int | None = answer_in(error).get("ResponseMetadata", {}).get("RetryAttempts")
    return retries == 0


def _code(error: Exception) -> str | None:
    """Error code of an answer; None if there is none."""
    code: str | None = answer_in(error).get("Error", {}).get("Code")
    return code


def _status(error: Exception) -> int | None:
    """HTTP status of an answer; None if there was no answer."""
    status: int | None = answer_in(error).get("ResponseMetadata", {}).get("HTTPStatusCode")
    return status
