"""Exit codes that mean the same in every command of both programs, `controlplane` and `replay`."""

FOUND = 1
"""Done, but the result needs attention: differences, findings, lost lines."""

REFUSED = 2
"""The command refuses its input; click uses the code for wrong usage as well."""

DEFECT = 70
"""A defect of the program (`EX_SOFTWARE` of sysexits.h)."""

NOT_PRINTED = 74
"""Standard output or an open file cannot be written (`EX_IOERR` of sysexits.h), for example because
the disk is full. Changes that the command has made stay."""

INTERRUPTED = 130
"""Ctrl-C, as shells count it: 128 and the number of the signal."""

CLOSED_PIPE = 141
"""The reader of the output has closed the pipe, as `head` does: 128 and the number of SIGPIPE.

The code differs from 0, because a result that nobody has read must not pass for a success.
"""
