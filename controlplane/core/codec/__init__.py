"""Codec between (key, value) bytes and records, per topic. Decoding is total.

Any bytes decode to a record or to `Invalid`. The result depends on the release (`Profile`): it is
the one that a worker of that release gets. Encoding gives the bytes that such a worker writes.
"""

from controlplane.core.codec.command_log import decode_command, encode_command
from controlplane.core.codec.config import decode_config, encode_config
from controlplane.core.codec.offsets import decode_offset, decode_partition
from controlplane.core.codec.status import decode_status, encode_status

__all__ = [
    "decode_command",
    "decode_config",
    "decode_offset",
    "decode_partition",
    "decode_status",
    "encode_command",
    "encode_config",
    "encode_status",
]
