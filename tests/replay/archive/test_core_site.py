"""Settings come from Spark's configuration and from `core-site.xml`, which may include files."""

from pathlib import Path

import pytest

from replay.archive.stores.hadoop_settings import settings
from replay.errors import BadStoreSetting


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of a `core-site.xml` that includes `keys.xml`."""
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    (tmp_path / "core-site.xml").write_text(
        '<configuration xmlns:xi="http://www.w3.org/2001/XInclude"><xi:include href="keys.xml"/>'
        "<property><name>fs.s3a.access.key</name><value>${name}</value></property></configuration>"
    )
    return tmp_path


def test_properties_of_an_included_file_are_read(folder: Path) -> None:
    """Properties of an included file count, and their variables, too."""
    (folder / "keys.xml").write_text(
        "<configuration><property><name>fs.s3a.secret.key</name><value>s</value></property>"
        "<property><name>name</name><value>k</value></property></configuration>"
    )
    assert settings({}).values == {"fs.s3a.access.key": "k", "fs.s3a.secret.key": "s"}


@pytest.mark.parametrize("content", [None, "no XML"])
def test_an_unreadable_included_file_is_an_error(folder: Path, content: str | None) -> None:
    """A missing or broken included file is an error: its settings may be needed."""
    if content is not None:
        (folder / "keys.xml").write_text(content)
    with pytest.raises(BadStoreSetting, match=r"core-site\.xml cannot be read \("):
        settings({})


def test_a_setting_without_the_prefix_is_an_error() -> None:
    """A setting under Hadoop's own name is refused, because Spark does not pass it on."""
    with pytest.raises(
        BadStoreSetting, match=r"^fs\.s3a\.endpoint is no .*: write spark\.hadoop\.fs\.s3a\.endp"
    ):
        settings({"fs.s3a.endpoint": "http://minio:9000"})
