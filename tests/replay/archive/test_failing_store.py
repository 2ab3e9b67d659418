"""Merges, written states and feeds on an object store that fails in the middle."""

from collections.abc import Callable, Iterator

import pytest

from tests.replay.archive.buckets import Bucket, bucket
from tests.replay.archive.failing_store import check_feeds, check_merges, check_written_states
from tests.replay.archive.object_server import SERVERS, running

CHECKS = pytest.mark.parametrize("check", [check_merges, check_written_states, check_feeds])


@pytest.fixture(scope="module")
def in_process() -> Iterator[Bucket]:
    """Bucket of a server in this process (moto)."""
    with bucket("failing") as made:
        yield made


@pytest.fixture(scope="module", params=SERVERS)
def in_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bucket]:
    """Bucket of a server in a process of its own: S3Proxy and SeaweedFS."""
    with running(request.param, tmp_path_factory.mktemp("server")) as started:
        yield started.bucket


@pytest.mark.prove
@CHECKS
def test_a_failure_in_the_middle_leaves_no_half_result(
    in_process: Bucket, check: Callable[[Bucket], None]
) -> None:
    """Results are whole or absent, and a repetition completes them."""
    check(in_process)


@pytest.mark.prove
@CHECKS
def test_a_failure_of_a_server_leaves_no_half_result(
    in_server: Bucket, check: Callable[[Bucket], None]
) -> None:
    """Results are whole or absent, and a repetition completes them."""
    check(in_server)
