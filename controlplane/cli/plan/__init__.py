"""The command `plan`: a dry run of a request, or of an undo."""
