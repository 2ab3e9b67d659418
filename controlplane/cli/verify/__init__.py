"""The command `verify`: a log compared with the answers of workers."""
