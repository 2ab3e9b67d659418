"""Sentences about unusable files."""

import errno
import os

import pytest

from controlplane.core.text.file_errors import because


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "(No space left on device): make room"),
        (OSError("a\nb"), "(a): check the access rights of the file and its directory"),
        (OSError(), "(OSError): check the access rights of the file and its directory"),
    ],
)
def test_errors_of_any_form_are_explained(error: OSError, text: str) -> None:
    """Errors of libraries may have neither a number nor a text."""
    assert because(error) == text
