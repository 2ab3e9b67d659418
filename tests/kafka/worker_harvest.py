"""Catalogues harvested from a real worker."""

from controlplane.core.releases.profiles import Profile
from controlplane.harvest.bounded_worker import BoundedWorker
from controlplane.harvest.catalogue_file import catalogue_text
from controlplane.harvest.worker_harvest import from_worker, version_of
from controlplane.plugins import kafkas_own
from tests.kafka.real_kafka import KafkaWorker


async def catalogue_of(worker: KafkaWorker) -> bytes:
    """The catalogue file of a worker's plugins, with Kafka's documentation."""
    bounded = BoundedWorker(worker.rest, worker.url)
    version, profile = await version_of(bounded), Profile.of(worker.release)
    catalogue = await from_worker(bounded, version, profile, kafkas_own(), lambda _done, _of: None)
    return catalogue_text(catalogue, kafkas_own(), profile).encode()
