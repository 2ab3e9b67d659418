"""Recorder of class archives: runs a broker and a worker for that purpose only."""

from pathlib import Path
from tempfile import TemporaryDirectory

from tests.kafka.class_archives import ClassArchive, recorder
from tests.kafka.containers import KafkaImage
from tests.kafka.process import SMALL_JVM
from tests.kafka.real_kafka import Broker, KafkaWorker, broker_runtime, worker_runtime
from tests.patience import PATIENCE_S

CONNECTOR = {
    "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
    "file": "/dev/null",
    "topic": "lines",
}


async def record_classes(release: str) -> None:
    """Make the archives of a release, unless they exist or another process is making them.

    Programs in containers have none.

    Raises:
        JarsUnavailable: there are neither jars of the release nor its image.
    """
    paths = broker_runtime(release), worker_runtime(release)
    if isinstance(paths[0], KafkaImage) or isinstance(paths[1], KafkaImage):
        return
    of_broker, of_worker = ClassArchive("broker", paths[0]), ClassArchive("worker", paths[1])
    if of_broker.exists and of_worker.exists:
        return
    with recorder(f"kafka-{release}") as is_ours, TemporaryDirectory() as folder:
        if is_ours and not (of_broker.exists and of_worker.exists):
            await _record(release, Path(folder), of_broker, of_worker)


async def _record(
    release: str, folder: Path, of_broker: ClassArchive, of_worker: ClassArchive
) -> None:
    """Run a broker, and a worker with a connector; each writes its archive when it stops."""
    async with (
        Broker(release, folder, jvm=(*SMALL_JVM, *of_broker.recording)) as broker,
        KafkaWorker(release, broker, jvm=(*SMALL_JVM, *of_worker.recording)) as worker,
    ):
        await worker.rest.put("/connectors/recorded/config", json=CONNECTOR)
        for service, archive in ((worker, of_worker), (broker, of_broker)):
            await service.stop(PATIENCE_S)
            archive.keep()
