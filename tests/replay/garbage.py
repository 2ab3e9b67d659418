"""Log in which most records are unreadable or ignored."""

from collections.abc import Iterator

from controlplane.core.entry import Entry

CONFIGS, STATUSES, OVERTAKEN, COMMANDS = 1_200, 1_100, 50, 3
"""Numbers of unreadable records per topic; OVERTAKEN ones have a later readable record."""

DAY_MS = 86_400_000


def garbage() -> list[Entry]:
    """Two days of unreadable records, with one connector among them."""
    topics: dict[str, list[tuple[bytes | None, bytes]]] = {
        "connect-configs": [*_configs()],
        "connect-status": [*_statuses()],
        "connect-commands": [(b"\xff", b"{")] * COMMANDS,
        "connect-offsets": [(b'["a",{"p":1}]', b"\xfe"), (b"[", b"1"), (None, b"\x00")],
    }
    return [
        Entry(topic, 0, offset, DAY_MS * (1 + 2 * offset // len(pairs)), key, value)
        for topic, pairs in topics.items()
        for offset, (key, value) in enumerate(pairs)
    ]


def _configs() -> Iterator[tuple[bytes, bytes]]:
    yield b"connector-a", b'{"properties":{"name":"a"}}'
    for number in range(CONFIGS):
        yield b"connector-%d" % number, b"\xff{password=hunter2"


def _statuses() -> Iterator[tuple[bytes, bytes]]:
    for number in range(OVERTAKEN):
        yield b"status-connector-a", b"{%d" % number
    yield b"status-connector-a", b'{"state":"RUNNING","worker_id":"w","generation":1}'
    for number in range(STATUSES):
        yield b"status-connector-%d" % number, b'{"state":"FUTURE"'
