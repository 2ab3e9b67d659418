"""A worker of Kafka's integration tests: `controlplane serve` on a new log."""

import os
import sys

release, plugins, properties, folder = sys.argv[1:]
os.execv(
    sys.executable,
    [
        *(sys.executable, "-m", "controlplane", "serve", f"sqlite:///{folder}/state.db"),
        *("--release", release, "--plugins", plugins, "--worker-properties", properties),
    ],
)
