"""(key, value) bytes ↔ record, per topic. Decoding is total: any bytes in, a record or `Invalid`.

What is accepted depends on the release (`Profile`): decoding answers what *that* worker would make
of the bytes. Encoding gives the bytes that it would write.
"""

from controlplane.core.codec.commands import decode_command, encode_command
from controlplane.core.codec.config import decode_config, encode_config
from controlplane.core.codec.offsets import decode_offset, decode_partition, encode_offset
from controlplane.core.codec.status import decode_status, encode_status

__all__ = [
    "decode_command",
    "decode_config",
    "decode_offset",
    "decode_partition",
    "decode_status",
    "encode_command",
    "encode_config",
    "encode_offset",
    "encode_status",
]
