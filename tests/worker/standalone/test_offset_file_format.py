"""Bytes of the offsets file: Java and this project read each other's; no byte does harm."""

import subprocess
import textwrap
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.worker.standalone.offset_file_format import (
    NoOffsetFile,
    OffsetMap,
    decode_offsets,
    encode_offsets,
)
from tests.conftest import sampled
from tests.jars import SHORT_LIVED, java
from tests.oracle.kafka import release_path

RELEASES = ("3.9.1", "4.3.0")

BYTES = st.none() | st.binary(max_size=20)
MAPS = st.dictionaries(BYTES, BYTES, max_size=40)

JAVA = r"""
    import java.io.File; import java.nio.ByteBuffer; import java.nio.file.*; import java.util.*;
    import org.apache.kafka.connect.json.JsonConverter;
    import org.apache.kafka.connect.runtime.standalone.StandaloneConfig;
    import org.apache.kafka.connect.storage.*;
    public class Offsets {
        static class Store extends FileOffsetBackingStore {
            Store(Converter keys) { super(keys); }
            Map<ByteBuffer, ByteBuffer> all() { return data; }
        }
        public static void main(String[] folder) throws Exception {
            for (var file : new File(folder[0]).listFiles()) {
                var store = store(file);
                var lines = new ArrayList<String>();
                for (var entry : store.all().entrySet())
                    lines.add(hex(entry.getKey()) + "=" + hex(entry.getValue()));
                Files.write(Path.of(folder[1], file.getName()), lines);
                Files.copy(file.toPath(), Path.of(folder[2], file.getName()));
                store.stop();
                var writing = store(new File(folder[2], file.getName()));
                writing.set(Map.of(ByteBuffer.wrap("new".getBytes()),
                    ByteBuffer.wrap("offset".getBytes())), null).get();
                writing.stop();
            }
        }
        static Store store(File file) {
            var keys = new JsonConverter();
            keys.configure(Map.of("schemas.enable", "false"), true);
            var store = new Store(keys);
            store.configure(new StandaloneConfig(new HashMap<>(Map.of(
                "bootstrap.servers", "localhost:9",
                "key.converter", JsonConverter.class.getName(),
                "value.converter", JsonConverter.class.getName(),
                "offset.storage.file.filename", file.getPath()))));
            store.start();
            return store;
        }
        static String hex(ByteBuffer bytes) {
            return bytes == null ? "-" : HexFormat.of().formatHex(bytes.array());
        }
    }
"""
"""Loads each file of a folder by Kafka's class, prints it, and writes it with one offset more."""


@given(MAPS)
def test_written_offsets_are_read_back(offsets: OffsetMap) -> None:
    """Keys, values and removed offsets are read back in their order."""
    assert [*decode_offsets(encode_offsets(offsets)).items()] == [*offsets.items()]


@given(st.binary(max_size=300))
def test_other_bytes_are_refused(content: bytes) -> None:
    """Bytes that are no offsets file raise one error."""
    with pytest.raises(NoOffsetFile):
        decode_offsets(content)


@given(MAPS, st.data())
def test_a_damaged_file_is_read_or_refused(offsets: OffsetMap, data: st.DataObject) -> None:
    """A changed byte gives other offsets or the error, and no other failure."""
    content = bytearray(encode_offsets(offsets))
    content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    with suppress(NoOffsetFile):
        assert encode_offsets(decode_offsets(bytes(content)))


@given(MAPS, st.data())
def test_a_cut_file_is_refused(offsets: OffsetMap, data: st.DataObject) -> None:
    """A file that ends early is never taken for one with fewer offsets."""
    content = encode_offsets(offsets)
    with pytest.raises(NoOffsetFile, match="at byte"):
        decode_offsets(content[: data.draw(st.integers(0, len(content) - 1))])


def test_bytes_behind_the_map_are_refused() -> None:
    """A file with bytes behind the map is refused: the next commit would lose them."""
    with pytest.raises(NoOffsetFile, match="expected the end of the file at byte"):
        decode_offsets(encode_offsets({b"key": b"value"}) + b"\0")


@pytest.mark.parametrize(
    ("size", "length"), [(2**31 - 1, 5), (-1, 5), (1, 2**31 - 1), (1, -1)], ids=str
)
def test_false_lengths_are_refused(size: int, length: int) -> None:
    """A length beyond the file's end is refused before memory is taken for it."""
    content = encode_offsets({b"12345": None})
    numbers = {(1).to_bytes(4): size, (5).to_bytes(4): length}
    for original, number in numbers.items():
        head, _, tail = content.rpartition(original)
        content = head + number.to_bytes(4, signed=True) + tail
    with pytest.raises(NoOffsetFile):
        decode_offsets(content)


def test_an_array_that_occurs_twice_may_be_a_reference() -> None:
    """Java writes an array once, and then references to it; both are read."""
    content = encode_offsets({b"k": b"v", b"l": b"v"})
    array = b"\x75\x71\x00\x7e\x00\x02\x00\x00\x00\x01v"
    head, _, tail = content.rpartition(array)
    assert decode_offsets(head + b"\x71\x00\x7e\x00\x04" + tail) == {b"k": b"v", b"l": b"v"}
    with pytest.raises(NoOffsetFile, match="a reference to a byte"):
        decode_offsets(head + b"\x71\x00\x7e\x00\x09" + tail)


def random_maps(random: Random) -> list[dict[bytes | None, bytes | None]]:
    """Maps of up to some thousand offsets, many of them around a growth of Java's table."""
    sizes = [0, 1, 11, 12, 13, 23, 24, 25, 3_000, *(random.randrange(200) for _ in range(20))]
    return [
        {
            f'["connector",{{"part":{number}}}]'.encode(): random.choice(
                (None, b"", random.randbytes(random.randrange(40)), b'{"position":7}')
            )
            for number in range(size)
        }
        for size in sizes
    ]


@pytest.mark.java
@pytest.mark.parametrize("release", sampled(RELEASES, RELEASES[-1]))
def test_kafkas_own_class_reads_and_writes_the_same(tmp_path: Path, release: str) -> None:
    """Java loads our file. We load Java's, and write the same bytes for offsets in its order."""
    source, ours, loaded, theirs = (
        tmp_path / name for name in ("Offsets.java", "ours", "loaded", "theirs")
    )
    source.write_text(textwrap.dedent(JAVA), encoding="ascii")
    for folder in (ours, loaded, theirs):
        folder.mkdir()
    maps = random_maps(Random(17))
    for number, offsets in enumerate(maps):
        (ours / str(number)).write_bytes(encode_offsets(offsets))
    arguments = [str(source), *map(str, (ours, loaded, theirs))]
    command = [str(java()), *SHORT_LIVED, "-cp", release_path(release), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for number, offsets in enumerate(maps):
        lines = (loaded / str(number)).read_text("ascii").split()
        pairs = (line.split("=") for line in lines)
        assert {_unhex(key): _unhex(value) for key, value in pairs} == offsets
        content = (theirs / str(number)).read_bytes()
        written = decode_offsets(content)
        assert written == {**offsets, b"new": b"offset"}
        assert encode_offsets(written) == content


def _unhex(text: str) -> bytes | None:
    return None if text == "-" else bytes.fromhex(text)
