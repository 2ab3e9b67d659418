"""The connector classes that the workers of every scenario know."""

from controlplane.core.plugins import Plugins

PLUGINS = Plugins({"JdbcSource": "source", "JdbcSink": "sink"})
