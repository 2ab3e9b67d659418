"""Rules about content that no file of a public repository may have."""

import re
from collections.abc import Iterator

from tests.tidy.source import ROOT, Offence, SourceFile

# Written in pieces, so that this file keeps the rule, too.
HOMES = re.compile(r"(?<![\w.:/{}<>*-])/" + r"(work|root|home)/\w|" + re.escape(str(ROOT)) + r"\b")
HOST_NAMES = [
    f"{name}.{end}"
    for name, end in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("repo.maven.apache", "org"),
        ("repo.maven", "org"),
        ("repo1.maven", "org"),
        ("npmjs", "org"),
        ("crates", "io"),
        ("golang", "org"),
        ("debian", "org"),
        ("ubuntu", "com"),
    )
]
HOSTS = re.compile(rf"\b({'|'.join(map(re.escape, HOST_NAMES))})\b")
SECRETS = re.compile(
    "-----BEGIN [A-Z ]*PRIVATE KEY-----"
    r"|\bAKIA[0-9A-Z]{16}\b"
    r"|\bgh[pousr]_\w{36}"
    r"|\bxox[abprs]-[\w-]{10}"
    r"|\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\."
)
LOOK_FOR = {"a path of one machine": HOMES, "a registry's host": HOSTS, "a secret": SECRETS}
PARTS = {
    "a path of one machine": ["/work/", "/root/", "/home/", str(ROOT)],
    "a registry's host": HOST_NAMES,
    "a secret": ["PRIVATE KEY", "AKIA", *(f"gh{kind}_" for kind in "pousr"), "xox", "eyJ"],
}
"""Texts for a quick search: each match of the pattern contains one of them."""


def private(source: SourceFile) -> Iterator[Offence]:
    """A file has no path of a machine, no host of a package registry, and no secret."""
    for kind, pattern in LOOK_FOR.items():
        if not any(part in source.text for part in PARTS[kind]):  # ten times as fast as a pattern
            continue
        for match in pattern.finditer(source.text):
            line = source.text.count("\n", 0, match.start()) + 1
            yield Offence(line, f"{kind}: {match[0][:40]}")
