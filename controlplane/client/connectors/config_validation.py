"""Validation of a config by a worker of Kafka's, which has no dry run."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from controlplane.client.http.api import Api
from controlplane.client.http.request_errors import Declined
from controlplane.core.text.redaction import redacted_refusal

CLASS = "connector.class"


async def validate(api: Api, name: str, config: Mapping[str, str | None]) -> None:
    """Have a config looked at; nothing is changed.

    Raises:
        Declined: it is not valid. The message has all that is wrong with it.
        Unavailable: the worker cannot tell.
    """
    kind = config.get(CLASS)
    if not kind:
        raise Declined(f"the config of {name} has no {CLASS}")
    path = f"/connector-plugins/{quote(kind, safe='')}/config/validate"
    told = (await api.send("PUT", path, dict(config))).body
    errors = list(dict.fromkeys(error for one in told["configs"] for error in _errors(one)))
    if errors:
        raise Declined(f"the config of {name} is not valid: {redacted_refusal('; '.join(errors))}")


def _errors(one: Mapping[str, Any]) -> list[str]:
    return [str(error) for error in one["value"]["errors"]]
