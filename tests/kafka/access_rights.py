"""Users of a broker with an authorizer, and their ACLs; each test has its own users."""

import asyncio
import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.protocol.admin import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest

from controlplane.settings.security import KafkaSecurity, OAuthBearer
from tests.kafka.producer import admin
from tests.kafka.real_kafka import OAUTH_LISTENER, Broker
from tests.patience import PATIENCE_S

RESOURCES = {"topic": 2, "group": 3, "cluster": 4, "transactional id": 5}
"""Numbers of Kafka's resource types in access rules."""

OPERATIONS = {
    "READ": 3,
    "WRITE": 4,
    "CREATE": 5,
    "DELETE": 6,
    "DESCRIBE": 8,
    "DESCRIBE_CONFIGS": 10,
    "IDEMPOTENT_WRITE": 12,
}
"""Numbers of Kafka's operations in access rules."""

_ANY, _LITERAL, _PREFIXED, _ALLOW = 1, 3, 4, 3


class Right(NamedTuple):
    """Operation on a resource; `*` names every resource of a type."""

    operation: str
    resource: str
    name: str
    prefixed: bool = False


def unsigned_token(name: str, valid_s: int = 3_600) -> str:
    """Unsigned token, which a broker without an identity provider accepts."""
    now = int(time.time())
    claims = {"sub": name, "iat": now - 60, "exp": now + valid_s}
    parts = (json.dumps(part).encode() for part in ({"alg": "none"}, claims))
    return ".".join(urlsafe_b64encode(part).decode().rstrip("=") for part in parts) + "."


def security_of(user: str) -> KafkaSecurity:
    """Login of any user; a broker with tokens needs no list of users."""

    async def token() -> str:
        return unsigned_token(user)

    return KafkaSecurity(sasl=OAuthBearer(token))


def settings_of(user: str, folder: Path) -> dict[str, str]:
    """Connection settings of a user whose token lies in a file."""
    file = folder / f"{user}.token"
    file.write_text(unsigned_token(user))
    return {
        "security.protocol": OAUTH_LISTENER,
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": file.as_uri(),
    }


async def allow(broker: Broker, user: str, rights: Iterable[Right]) -> None:
    """Give rights to a user, and wait until the broker has them (its controller may still lag)."""
    async with admin(broker) as client:
        before = await _rights(client, user)
        for right in (distinct_rights := list(dict.fromkeys(rights))):
            pattern = _PREFIXED if right.prefixed else _LITERAL
            request = CreateAclsRequest(
                RESOURCES[right.resource],
                right.name,
                pattern,
                f"User:{user}",
                "*",
                OPERATIONS[right.operation],
                _ALLOW,
            )
            answer = await client._send_request(request)
            assert [code for code, _ in answer.creation_responses] == [0]
        await _until(client, user, before + len(distinct_rights))


async def revoke(broker: Broker, user: str, right: Right) -> None:
    """Take a right from a user, and wait until the broker no longer has it."""
    async with admin(broker) as client:
        before = await _rights(client, user)
        request = DeleteAclsRequest(
            RESOURCES[right.resource],
            right.name,
            _ANY,
            f"User:{user}",
            "*",
            OPERATIONS[right.operation],
            _ALLOW,
        )
        answer = await client._send_request(request)
        assert [len(matching) for _, _, matching in answer.filter_responses] == [1]
        await _until(client, user, before - 1)


async def _until(client: AIOKafkaAdminClient, user: str, rights: int) -> None:
    """Wait until the broker has this number of rights of a user."""
    async with asyncio.timeout(PATIENCE_S):
        while await _rights(client, user) != rights:  # noqa: ASYNC110 - a broker sends no event
            await asyncio.sleep(0.02)


async def _rights(client: AIOKafkaAdminClient, user: str) -> int:
    """Number of rights that the broker knows of a user."""
    request = DescribeAclsRequest(_ANY, None, _ANY, f"User:{user}", None, _ANY, _ANY)
    answer = await client._send_request(request)
    return sum(len(acls) for *_, acls in answer.resources)
