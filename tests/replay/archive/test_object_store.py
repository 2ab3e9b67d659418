"""Archives in an object store, opened with Hadoop's settings; moto serves S3 over HTTP."""

import pickle
import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyspark
import pytest
from pyarrow import fs

from replay.archive.segments import segment_files as segments
from replay.archive.segments.segment_files import opened, row_groups
from replay.archive.stores import hadoop_settings
from replay.archive.stores.hadoop_settings import HadoopSettings, for_arrow, settings
from replay.archive.stores.store import ArchiveStore, open_store
from replay.archive.stores.store_errors import why_not
from replay.archive.verification import verified
from replay.errors import BadStoreSetting, NoArchive, NotWritable
from tests.recorded_requests import recorded_entries
from tests.replay.archive.archives import capture_into, log_of, open_clusters
from tests.replay.archive.buckets import LOGS, Bucket, archived, bucket, serving
from tests.replay.cli.replay_calls import call, refusal

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def store() -> Iterator[Bucket]:
    """An object store with one bucket, `fleet`."""
    with bucket("fleet") as made:
        yield made


@pytest.fixture(scope="module")
def archives(store: Bucket, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """Two clusters, archived in the object store, and the same files in a folder."""
    folder = tmp_path_factory.mktemp("same")
    return archived(store, "some/archive", folder), folder


JOBS = ("--jobs", "2")
"""Option that changes no output; the command that reads the folder omits it."""

COMMANDS = {
    ("verify",): 0,
    ("state", "--profile", "3.4", "--profile", "3.9", "-o", "json"): 0,
    ("state", "--cluster", "roll", "--as-of", "config@9", "-o", "json"): 0,
    ("timeline", "--profile", "3.9"): 0,
    ("history", "--cluster", "roll", "--connector", "pages"): 0,
    ("diff", "--cluster", "roll", "--from", "config@9", "--to", "config@11"): 1,
    ("audit", *JOBS, "-o", "json"): 1,
    ("compat", "--from", "3.9", "--to", "3.4", "-o", "json"): 1,
    ("lint", "--release", "3.4"): 1,
}
"""Commands about the archive, with their options, and the expected exit codes."""

FOLDER_COMPARISONS = [
    words
    if words[0] in {"state", "audit"}
    # Other commands read an archive as `state` and `audit` do.
    else pytest.param(words, marks=pytest.mark.prove)
    for words in COMMANDS
]
"""All commands; those with the marker `prove` run in `make prove` only."""

MISSING_MANIFEST_COMMANDS = [
    words if words[0] in {"history", "lint"} else pytest.param(words, marks=pytest.mark.prove)
    for words in COMMANDS
]
"""All commands; in `make test` only two run, the others in `make prove`.

`history` stops at the first error; `lint` reports each cluster.
"""


@pytest.mark.parametrize("words", FOLDER_COMPARISONS, ids=lambda words: " ".join(words[:2]))
def test_commands_print_the_same_as_for_a_folder(
    store: Bucket, archives: tuple[str, Path], words: tuple[str, ...]
) -> None:
    """Commands print the same for an object store as for a folder, also with `--jobs`."""
    name, *options = words
    where, folder = archives
    result = call(name, where, *options, *store.conf())
    assert result.code == COMMANDS[words], result
    assert result == call(name, folder, *(word for word in options if word not in JOBS))


def test_a_report_is_the_same_page_as_from_a_folder(
    store: Bucket, archives: tuple[str, Path], tmp_path: Path
) -> None:
    """A report from an object store is the same page as from a folder, except for the URL."""
    where, folder = archives
    store_page, folder_page, roll = (
        tmp_path / "there.html",
        tmp_path / "here.html",
        ("--cluster", "roll"),
    )
    assert call("report", where, *roll, "--to", store_page, *store.conf()).code == 0
    assert call("report", folder, *roll, "--to", folder_page).code == 0
    assert store_page.read_text() == folder_page.read_text().replace(str(folder), where)


@pytest.fixture(scope="module")
def without_manifests(store: Bucket, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A second archive of the same clusters, with the manifests of one cluster deleted."""
    where = archived(store, "incomplete/archive", tmp_path_factory.mktemp("complete"))
    store.system.delete_dir(f"{store.name}/incomplete/archive/cluster=roll/_manifest")
    return where


@pytest.mark.parametrize("words", MISSING_MANIFEST_COMMANDS, ids=lambda words: " ".join(words[:2]))
def test_a_cluster_without_its_manifests_is_named(
    store: Bucket, without_manifests: str, words: tuple[str, ...]
) -> None:
    """The error names a cluster without manifests, although no `_manifest` folder is left."""
    name, *options = words
    result = call(name, without_manifests, *options, *store.conf())
    assert result.code == 2
    assert "cluster=roll/_manifest has no manifest: restore" in result.err


def test_states_appear_file_by_file(store: Bucket, archives: tuple[str, Path]) -> None:
    """`_SUCCESS` marks a complete folder; `state` writes into no folder that has files."""
    where, folder = "s3a://fleet/states", "fleet/states"
    words = ("state", archives[0], "-o", "parquet", "--folder", where, *store.conf())
    assert call(*words).code == 0
    assert store.system.get_file_info([f"{folder}/_SUCCESS"])[0].is_file
    assert f"{where} has files: name a new folder" in refusal(call(*words))
    store.system.delete_file(f"{folder}/_SUCCESS")
    assert f"{where} has files but no _SUCCESS, as after a run that was" in refusal(call(*words))
    store.system.delete_dir_contents(folder)
    assert call(*words).code == 0


# --- sources of settings --------------------------------------------------------------------------


def test_core_site_gives_the_settings(
    store: Bucket, archives: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`core-site.xml` gives the settings; it may leave secrets to the environment."""
    site = store.hadoop | {"fs.s3a.secret.key": "${env.ARCHIVE_SECRET}", "io.file": "${nowhere}"}
    site |= {"archive.host": store.endpoint, "fs.s3a.endpoint": "http://${archive.host}"}
    site |= {"fs.s3a.bucket.fleet.access.key": store.key, "fs.s3a.access.key": "of other buckets"}
    _write_core_site(tmp_path, site)
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    monkeypatch.setenv("ARCHIVE_SECRET", store.secret)
    where, folder = archives
    assert call("state", where) == call("state", folder)
    assert "INVALID_ACCESS_KEY" in refusal(call("state", "s3a://other/archive"))
    nearer = ("--conf", "spark.hadoop.fs.s3a.bucket.fleet.access.key=x")
    assert "INVALID_ACCESS_KEY" in refusal(call("state", where, *nearer))


def test_environment_variables_give_the_settings(
    store: Bucket, archives: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """AWS's environment variables apply. `s3:` URLs and Arrow's query parameters are accepted."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{store.endpoint}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", store.key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", store.secret)
    where, folder = archives
    expected = call("state", folder)
    assert call("state", where.replace("s3a:", "s3:")) == expected
    query = f"?endpoint_override={store.endpoint}&scheme=http&region=us-east-1"
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    assert call("state", where + query) == expected


def test_settings_are_translated_for_arrow() -> None:
    """Arrow gets each setting that it needs, under Arrow's name."""
    options = {
        "endpoint": "https://store:9000/",
        "endpoint.region": "eu-west-1",
        "session.token": "t",
        "path.style.access": "FALSE",
        "aws.credentials.provider": "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider",
        "connection.maximum": "200",
    }
    assert _for_arrow(options) == {
        "endpoint_override": "store:9000",
        "scheme": "https",
        "region": "eu-west-1",
        "session_token": "t",
        "force_virtual_addressing": True,
    }
    nobody = "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"
    assert _for_arrow({"aws.credentials.provider": nobody}) == {"anonymous": True}
    assert _for_arrow({"endpoint": "s3.amazonaws.com"}) == {}
    assert _for_arrow({"endpoint": "host:1", "connection.ssl.enabled": "false"})["scheme"] == "http"


def _for_arrow(options: dict[str, str]) -> dict[str, object]:
    return for_arrow(
        HadoopSettings({f"fs.s3a.{name}": value for name, value in options.items()}), "any"
    )


REFUSED = {
    *("accesspoint.required", "acl.default", "delegation.token.binding", "signing-algorithm"),
    *("encryption.algorithm", "encryption.context", "encryption.key"),
    *("assumed.role.arn", "assumed.role.credentials.provider", "assumed.role.policy"),
    *("assumed.role.session.duration", "assumed.role.session.name"),
    *("assumed.role.sts.endpoint", "assumed.role.sts.endpoint.region"),
    *("proxy.host", "proxy.port", "proxy.username", "proxy.password", "proxy.domain"),
    *("proxy.workstation", "security.credential.provider.path"),
}
"""Settings of Hadoop that Arrow lacks or has in another form."""


def test_no_setting_of_hadoop_is_ignored_silently() -> None:
    """The settings in `REFUSED` give an error, and no other setting that Hadoop documents does."""
    jar = next((Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar"))
    with zipfile.ZipFile(jar) as opened:
        defaults = opened.read("core-default.xml").decode()
    names = set(re.findall(r"<name>fs\.s3a\.([^<]+)</name>", defaults))
    assert len(names) > 50
    refused = set()
    for name in names:
        try:
            hadoop_settings.check_known([name])
        except BadStoreSetting as error:
            assert f"fs.s3a.{name} is not supported" in str(error)  # noqa: PT017 - only some names are refused
            refused.add(name)
    assert refused == REFUSED


# --- wrong settings and places --------------------------------------------------------------------

WRONG = [
    (
        {"secret_key": "nonsense"},
        r"cannot be read \(SIGNATURE_DOES_NOT_MATCH: .*check fs.s3a.acc",
    ),
    ({"access_key": "nonsense"}, r"cannot be read \(INVALID_ACCESS_KEY_ID: .*check fs.s3a.acc"),
    ({"secret_key": ""}, "fs.s3a.access.key and fs.s3a.secret.key belong together"),
    ({"acess_key": "secret"}, "fs.s3a.acess.key is not supported"),
    ({"encryption_algorithm": "SSE-KMS"}, "fs.s3a.encryption.algorithm is not supported"),
    ({"path_style_access": "yes"}, "fs.s3a.path.style.access is true or false"),
    ({"endpoint": "http://host/path"}, "fs.s3a.endpoint is neither host:port nor"),
    ({"endpoint": "127.0.0.1:1"}, r"\(NETWORK_CONNECTION: .*check fs.s3a.endpoint"),
    ({"endpoint": "host:port"}, "fs.s3a.endpoint is neither host:port nor"),
    ({"endpoint": "http://host:99999"}, "fs.s3a.endpoint is neither host:port nor"),
    ({"aws_credentials_provider": "com.us.OurProvider"}, "names OurProvider, which only Hadoop"),
]


@pytest.mark.parametrize(("options", "sentence"), WRONG, ids=[str(options) for options, _ in WRONG])
def test_wrong_settings_are_refused_without_their_secrets(
    store: Bucket, options: dict[str, str], sentence: str
) -> None:
    """Wrong settings give one error sentence without the given secrets."""
    message = refusal(call("state", "s3a://fleet/x", *store.conf(**options)))
    assert re.search(sentence, message), message
    assert not any(secret in message for secret in (store.secret, "nonsense", "SSE-KMS"))


@pytest.mark.parametrize(
    ("where", "sentence"),
    [
        ("s3a://nobody/x", "there is no bucket nobody: create it, or correct the name"),
        ("s3a://", "s3a:// names no bucket"),
        ("s3a://fleet/elsewhere", "s3a://fleet/elsewhere is no archive"),
        ("s3a://key:nonsense@fleet/x", "keys and a port do not belong in a URL"),
        ("s3a://key:non/sense@fleet/x", "keys and a port do not belong in a URL"),
        ("s3a://fleet:9000/x", "keys and a port do not belong in a URL"),
        ("s3a://fleet//x", "s3a://fleet//x names a folder without a name"),
        ("s3a://fleet/x?secret_key=nonsense", "s3a://fleet/x cannot be opened (Unexpected query"),
        ("gs://nonsense/x", "no archive can be at gs://…: name a folder, or s3a://bucket/folder"),
        ("abfs://nonsense@store/x", "no archive can be at abfs://…"),
        ("hdfs://nonsense:8020/x", "no archive can be at hdfs://…"),
        ("ftp://nonsense/x", "no archive can be at ftp://…"),
        ("file://elsewhere/x", "file://elsewhere/x is not of the form"),
    ],
)
def test_wrong_urls_are_refused_without_their_keys(
    store: Bucket, where: str, sentence: str
) -> None:
    """Wrong URLs give one error sentence without the keys in the URL."""
    message = refusal(call("state", where, *store.conf()))
    assert sentence in message
    assert "nonsense" not in message.replace("/", "")


def test_a_capture_that_cannot_write_is_refused(store: Bucket) -> None:
    """A capture refuses a missing bucket; it refuses a wrong key before it writes a file."""
    message = refusal(call("capture", LOGS[0], "s3a://nobody/x", *store.conf()))
    assert "there is no bucket nobody" in message
    message = refusal(call("capture", LOGS[0], "s3a://fleet/x", *store.conf(secret_key="nonsense")))
    assert "SIGNATURE_DOES_NOT_MATCH" in message
    assert store.system.get_file_info(["fleet/x"])[0].type == fs.FileType.NotFound


EXPANDED = {
    "http://${host}:9000": "http://minio:9000",
    "${env.NOWHERE:-a}${env.NOWHERE-b}": "ab",
    "[${env.EMPTY:-a}${env.EMPTY-b}]": "[a]",
    "${env.NOWHERE:-${host}}": "minio",
    "${nowhere}/${host}": "${nowhere}/${host}",
    "a${fs.s3a.self}": "a${fs.s3a.self}",
    "${env.}": "${env.}",
}
"""Values of core-site.xml as Hadoop's `Configuration` (3.5) expands them."""


@pytest.mark.parametrize("value", EXPANDED)
def test_variables_are_expanded_as_hadoop_does(
    value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Variables are properties or environment variables. They may be nested and have defaults."""
    _write_core_site(tmp_path, {"host": "${env.STORE_HOST}", "fs.s3a.self": value})
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    monkeypatch.setenv("STORE_HOST", "minio")
    monkeypatch.setenv("EMPTY", "")
    assert settings({}).values == {"fs.s3a.self": EXPANDED[value]}


def test_a_loop_of_variables_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hadoop refuses such a value when it reads it; other settings of Hadoop do not matter."""
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    _write_core_site(tmp_path, {"a": "${b}", "b": "${a}"})
    assert settings({}).values == {}
    _write_core_site(tmp_path, {"fs.s3a.a": "${b}", "b": "${c}", "c": "${b}"})
    with pytest.raises(BadStoreSetting, match="more than 20 variables, or they form a loop"):
        settings({})


def _write_core_site(folder: Path, site: Mapping[str, str]) -> None:
    properties = "".join(
        f"<property><name>{name}</name><value>\n  {value}\n</value></property>"
        for name, value in site.items()
    )
    (folder / "core-site.xml").write_text(f"<configuration>{properties}</configuration>")


def test_only_an_unreadable_core_site_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing `core-site.xml` is ignored; an unreadable one is an error."""
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    assert "is no archive" in refusal(call("state", tmp_path))
    (tmp_path / "core-site.xml").write_text("no XML")
    assert "core-site.xml cannot be read (" in refusal(call("state", tmp_path))


def test_settings_keep_their_secrets() -> None:
    """`repr` of the settings shows their names only."""
    assert repr(HadoopSettings({"fs.s3a.secret.key": "s"})) == "Settings(fs.s3a.secret.key)"


def test_a_store_that_fails_during_a_read_is_named(
    store: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failure of the store during a read or write is a network error, not a damaged archive."""
    monkeypatch.setattr(segments, "READ_AT_ONCE_BYTES", 0)
    with serving() as endpoint:
        where, settings = (
            "s3a://fleet/away",
            HadoopSettings(store._replace(endpoint=endpoint).hadoop),
        )
        capture_into(open_store(where, settings), log_of(recorded_entries("aborted-3.9")))
        (cluster,) = open_clusters(open_store(where, settings))
        (segment, *_) = cluster.parts[cluster.topics.config, 0].segments
        file = opened(cluster.store, segment.stored)
    with pytest.raises(NoArchive, match=r"cannot be read \(NETWORK_CONNECTION"):
        verified(cluster)
    with pytest.raises(NoArchive, match=r"cannot be read \(NETWORK_CONNECTION"):
        next(row_groups(file)).read("value")
    with pytest.raises(NotWritable, match=r"cannot be written \(NETWORK_CONNECTION"):
        cluster.store.take("a/b", b"")


def test_a_pickled_store_keeps_its_settings(store: Bucket) -> None:
    """A pickled store, as Spark sends it to tasks, keeps its settings."""
    handed: ArchiveStore = pickle.loads(
        pickle.dumps(open_store("s3a://fleet/handed", HadoopSettings(store.hadoop)))
    )
    assert handed.add("a/b", b"content")
    assert store.system.open_input_stream("fleet/handed/a/b").read() == b"content"


def test_an_upload_refused_for_its_checksum_names_the_remedy() -> None:
    """The error names the environment variable with which S3Proxy 2.9 accepts uploads."""
    error = OSError(
        "When uploading part for key 'x/a' in bucket 'fleet': AWS Error UNKNOWN (HTTP status 400) "
        "during UploadPart operation: No response body."
    )
    explanation = why_not(error)
    assert explanation.startswith(
        "(HTTP status 400: No response body): a server that does not know the "
    )
    assert explanation.endswith("AWS_REQUEST_CHECKSUM_CALCULATION=when_required")


def test_a_refusal_without_a_message_names_its_kind() -> None:
    """The sentence names the kind of a refusal without a message, and the settings to check."""
    error = OSError("When reading key 'x': AWS Error ACCESS_DENIED during HeadObject operation: ")
    assert why_not(error).startswith("(ACCESS_DENIED: no reason given): check fs.s3a.access.key")
