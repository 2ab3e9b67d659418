"""Fixtures of the tests of KIPs."""

from collections.abc import AsyncIterator

import pytest

from controlplane.core.releases.profiles import KIP
from tests.kips.service import AskedService, running, serving


@pytest.fixture(params=[KIP, "3.9"])
async def connect(request: pytest.FixtureRequest) -> AsyncIterator[AskedService]:
    """The small cluster under our profile and a release's; `orders` has used the topics t and u."""
    async with serving(await running(), request.param) as service:
        yield service
