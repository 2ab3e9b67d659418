"""Stored passwords and tokens: hashes, lines and files."""

import hashlib
import hmac
import re
from base64 import b64encode
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from controlplane.observe import logger, silent
from controlplane.rest.security.credential_files import FILE_BYTES, CredentialFile
from controlplane.rest.security.credential_hashes import (
    BadCredentialLine,
    Credential,
    Scrypt,
    TokenHash,
    password_line,
    token_line,
)
from controlplane.rest.security.roles import Role
from controlplane.settings.errors import SettingsError
from tests.rest.security.guarded_app import cheap, write_credentials

PASSWORDS = ["", "secret", "größe 😀", "a:b", "x" * 200, "\ud800"]


@pytest.mark.parametrize("password", PASSWORDS)
def test_a_password_fits_its_own_hash_only(password: str) -> None:
    """The hash also fits when read back from its line; two hashes of one password differ."""
    kept = Credential("ann", Role.OPERATE, Scrypt.of(password))
    assert password_line(str(kept)) == kept
    assert kept.hash.fits(password)
    assert not kept.hash.fits(password + "x")
    assert str(Scrypt.of(password)) != str(Scrypt.of(password))


RFC_7914 = """
    70 23 bd cb 3a fd 73 48 46 1c 06 cd 81 fd 38 eb fd a8 fb ba 90 4f 8e 3e a9 b5 43 f6 54 5d a1 f2
    d5 43 29 55 61 3f 0f cf 62 d4 97 05 24 2a 9a f9 e6 1e 85 dc 0d 65 1e 40 df cf 01 7b 45 57 58 87
"""
"""scrypt of `pleaseletmein` and `SodiumChloride` with N=16384, r=8, p=1, as the RFC prints it."""


def test_a_hash_of_another_program_is_accepted() -> None:
    """A PHC line of another program's scrypt is accepted."""
    salt, digest = (
        b64encode(raw).decode().rstrip("=") for raw in (b"SodiumChloride", bytes.fromhex(RFC_7914))
    )
    line = f"ann:view:$scrypt$ln=14,r=8,p=1${salt}${digest}"
    assert password_line(line).hash.fits("pleaseletmein")


def test_a_token_is_kept_as_its_sha256() -> None:
    """The hash of a token is the output of `sha256sum`."""
    kept = token_line("ci:administer:" + hashlib.sha256(b"t0ken").hexdigest().upper())
    assert kept == Credential("ci", Role.ADMINISTER, TokenHash.of("t0ken"))
    assert kept.hash.fits("t0ken")
    assert not kept.hash.fits("t0ke")


@pytest.mark.parametrize("kept", [cheap("secret"), TokenHash.of("secret")])
def test_digests_are_compared_in_constant_time(
    kept: Scrypt | TokenHash, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole digests are compared with `hmac.compare_digest`."""
    compared: list[tuple[bytes, bytes]] = []
    compare = hmac.compare_digest

    def noted(mine: bytes, theirs: bytes) -> bool:
        compared.append((mine, theirs))
        return compare(mine, theirs)

    monkeypatch.setattr(hmac, "compare_digest", noted)
    assert kept.fits("secret")
    assert not kept.fits("other")
    assert [theirs for _, theirs in compared] == [kept.digest, kept.digest]
    assert [len(mine) for mine, _ in compared] == [len(kept.digest)] * 2


DIGEST = "A" * 22
"""The shortest digest that is accepted: 16 bytes."""

GOOD = f"$scrypt$ln=1,r=1,p=1$c2FsdA${DIGEST}"
BAD_PASSWORDS = {
    "ann": "name:role:hash",
    "ann:view": "name:role:hash",
    f":view:{GOOD}": "the name ''",
    f" ann:view:{GOOD}": "the name ' ann'",
    f"a\x07:view:{GOOD}": "the name 'a\\x07'",
    f"ann:root:{GOOD}": "no role 'root': use view, operate, administer",
    "ann:view:secret": "like $scrypt$",
    "ann:view:$2y$05$abc": "like $scrypt$",
    "ann:view:$scrypt$ln=1,r=1,p=1$c2FsdA$A": "is not Base64",
    "ann:view:$scrypt$ln=19,r=8,p=1$c2FsdA$AAAA": "out of range",
    "ann:view:$scrypt$ln=14,r=99,p=1$c2FsdA$AAAA": "out of range",
    "ann:view:$scrypt$ln=0,r=8,p=1$c2FsdA$AAAA": "out of range",
    f"ann:view:{GOOD[:-2]}": "its hash is cut off after 15 bytes",
    "ann:view:$scrypt$ln=16,r=1,p=1$c2FsdA$AAAA": "no hash with ln=16 and r=1: use from r=2",
    "ann:view:$scrypt$ln=\u0661,r=8,p=1$c2FsdA$AAAA": "like $scrypt$",
}


@pytest.mark.parametrize(("ln", "r"), [(1, 1), (15, 1)])
def test_the_least_blocks_of_a_cost_are_accepted(ln: int, r: int) -> None:
    """Scrypt computes the hash of each line that is accepted."""
    assert not password_line(f"ann:view:$scrypt$ln={ln},r={r},p=1$c2FsdA${DIGEST}").hash.fits("x")


@pytest.mark.parametrize("line", BAD_PASSWORDS)
def test_invalid_password_lines_are_refused(line: str) -> None:
    """The error says what is wrong with a password line."""
    with pytest.raises(BadCredentialLine, match=re.escape(BAD_PASSWORDS[line])):
        password_line(line)


def test_invalid_token_lines_are_refused() -> None:
    """A plain token in the file is refused; the error does not repeat it."""
    with pytest.raises(BadCredentialLine) as refused:
        token_line("ci:view:t0ken")
    assert "64 hexadecimal digits" in str(refused.value)
    assert "t0ken" not in str(refused.value)


class EventRecorder:
    """A logger that records its events."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []

    def info(self, event: str, **facts: Any) -> None:
        """Append the event and its facts to `events`."""
        self.events.append((event, facts))

    warning = exception = info


def test_a_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    """A damaged or missing file keeps the last credentials; each change is reported once."""
    path, logger = tmp_path / "tokens", EventRecorder()
    ann, bob = (Credential(name, Role.VIEW, TokenHash.of(name)) for name in ("ann", "bob"))
    path.write_text(f"{ann}\n", "ascii")
    file = CredentialFile(path, token_line, logger)
    assert file.current() == file.current() == (ann,)
    path.write_text(f"{ann}\n# and\n\n{bob}\n", "ascii")
    assert file.current() == (ann, bob)
    path.write_text("bob:view:t0ken\n", "ascii")
    assert file.current() == file.current() == (ann, bob)
    path.unlink()
    assert file.current() == file.current() == (ann, bob)
    path.write_text(f"{bob}\n", "ascii")
    assert file.current() == (bob,)
    assert [event for event, _ in logger.events] == [
        "credentials_read",
        "credentials_not_read",
        "credentials_not_read",
        "credentials_read",
    ]
    facts = logger.events[1][1]
    assert (facts["file"], facts["line"]) == (str(path), 1)
    assert facts["reason"].startswith("expected a SHA-256 hash")


def test_a_log_line_about_a_bad_token_file_keeps_its_line_number(tmp_path: Path) -> None:
    """The log has file and line number, although redaction hides text after `tokens`."""
    path, printed = tmp_path / "tokens", StringIO()
    path.write_text("")
    file = CredentialFile(path, token_line, logger(printed))
    path.write_text("# one\nbob:view:t0ken\n", "ascii")
    assert file.current() == ()
    assert f"file={path} line=2 " in printed.getvalue()


def test_unusable_credential_files_are_refused(tmp_path: Path) -> None:
    """A missing, oversized or binary file is refused at the start."""
    path = tmp_path / "passwords"
    reasons = {"cannot be read .No such file": None, "has more than": b"#" * (FILE_BYTES + 1)}
    for reason, content in (reasons | {"not UTF-8 text": b"\xff"}).items():
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(SettingsError, match=reason):
            CredentialFile(path, password_line, silent())


def test_a_name_with_two_passwords_is_refused(tmp_path: Path) -> None:
    """The error has both line numbers. A name may have several tokens."""
    path = tmp_path / "credentials"
    lines = [Credential("ann", role, cheap("x")) for role in (Role.VIEW, Role.ADMINISTER)]
    path.write_text(f"# ops\n{lines[0]}\n{lines[1]}\n", "ascii")
    with pytest.raises(SettingsError) as refused:
        CredentialFile(path, password_line, silent())
    assert str(refused.value) == f"{path}:3: line 2 has a password of ann, too: delete one"
    path.write_text(f"ann:view:{TokenHash.of('a')}\nann:view:{TokenHash.of('b')}\n", "ascii")
    assert len(CredentialFile(path, token_line, silent()).current()) == 2


def test_written_credentials_are_read_back(tmp_path: Path) -> None:
    """Names in a credential file may be of any script."""
    path = write_credentials(tmp_path / "passwords", {"größe": cheap("x")}, {"größe": Role.VIEW})
    (kept,) = CredentialFile(Path(path), password_line, silent()).current()
    assert kept.name == "größe"
