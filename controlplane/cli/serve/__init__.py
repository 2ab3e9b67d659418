"""The command `serve`: a log is opened, then served over HTTP."""
