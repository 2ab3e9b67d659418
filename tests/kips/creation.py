"""Creation of a connector `new` with initial offsets, where an earlier one has left offsets."""

from typing import Any

from tests.controller.scene import OFFSETS
from tests.kips.service import SOURCE_CONFIG, AskedService, Body, came_to

NEW = "/connectors/new"
AT_100 = [{"partition": {"table": "a"}, "offset": {"pos": 100}}]
SET_HERE = (
    "The framework-managed offsets for this connector have been set successfully. However, if this "
    "connector manages offsets externally, they will need to be manually set in the system that "
    "the connector uses."
)
LEFT_OVER = (
    came_to("new", {"table": "a"}, {"pos": 1}),
    came_to("new", {"table": "b"}, {"pos": 2}),
)
"""Offsets left by an earlier connector of the same name."""


def creation_body(offsets: Any = AT_100, config: Any = SOURCE_CONFIG, **fields: Any) -> Body:
    """The body of a request that creates the connector `new`."""
    return {"name": "new", "config": config, "initial_offsets": offsets} | fields


async def offsets_of(service: AskedService, name: str = "new") -> list[Any]:
    """Source offsets as REST lists them."""
    listed: list[Any] = (await service.shows(f"/connectors/{name}/offsets"))["offsets"]["source"]
    return listed


def left_of(service: AskedService, name: str = "new") -> dict[str, str]:
    """Stored offsets of a connector in the worker's topic, whether or not the connector exists."""
    values = service.state.offsets[OFFSETS].values.items()
    texts = (((key or b"").decode(), value) for key, value in values)
    return {
        key: value.decode()
        for key, value in texts
        if value is not None and key.startswith(f'["{name}"')
    }
