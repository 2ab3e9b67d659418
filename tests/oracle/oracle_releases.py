"""Releases whose own classes are compared with our fold."""

ASKED = (
    *("0.9.0.1", "0.10.0.1", "0.11.0.3", "1.0.2", "1.1.1"),
    *("2.2.1", "2.2.2", "2.3.0", "2.3.1", "2.4.1", "2.5.0", "2.5.1", "2.6.0", "2.6.1", "2.8.2"),
    *(
        "3.0.2",
        "3.2.2",
        "3.2.3",
        "3.3.2",
        "3.4.0",
        "3.4.1",
        "3.5.0",
        "3.5.2",
        "3.6.0",
        "3.6.1",
        "3.6.2",
    ),
    *("3.7.0", "3.7.2", "3.8.1", "3.9.1", "4.0.0", "4.0.2", "4.1.1", "4.2.0", "4.2.1", "4.3.0"),
)
"""At least one release of each profile, and both sides of most boundaries."""

PROVED = (
    *("0.10.2.1", "2.0.1", "2.1.1", "2.7.2", "3.1.2", "3.3.1", "3.7.1", "3.9.2", "4.1.2"),
    # The other sides of boundaries: the first release of a profile, or the last before it.
    *("0.10.0.0", "1.0.0", "1.1.0", "2.4.0", "2.8.0", "3.0.0", "3.3.0", "3.5.1", "3.9.0", "4.1.0"),
)
"""Releases for `make prove` only; their profiles are those of releases in `ASKED`."""
