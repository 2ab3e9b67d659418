"""Matches of Java's regular expressions; the expected answers are those of Java 17.

`tests/oracle/test_patterns.py` compares random patterns with Java itself.
"""

import pytest

from controlplane.core.java.pattern_nodes import MatchLimitExceeded
from controlplane.core.java.pattern_parser import UnsupportedPattern
from controlplane.core.java.regular_expressions import JavaPattern


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("orders-.*", ["orders-", "orders-eu"], ["my-orders-eu", "orders-\n"]),
        ("a|ab", ["a", "ab"], ["b", "abb"]),
        ("", [""], ["a"]),
        (r"\p{Lower}+\z", ["ab"], ["aB", "é"]),
        (r"\p{Upper}\P{Upper}*", ["Ab1"], ["ab", "AB"]),
        (r"\p{Alnum}+|\p{Punct}", ["a1", "-"], ["a-", "é"]),
        (r"\pL+|\p{IsNd}", ["aé", "\u0663"], ["a1"]),
        (r"\Qa.b*\E+", ["a.b*", "a.b**"], ["axb*", "a.b"]),
        (r"\Q[a\Q]", ["[a\\Q]"], ["a"]),
        ("[a-z&&[^x]]+", ["ab"], ["x", "ax", "&", "[ab]"]),
        ("[a-c[x-z]]", ["a", "y"], ["m", "["]),
        ("[^a-c[x-z]&&[^b]]", ["b", "m"], ["a", "y"]),
        ("[]a^-]+", ["]a^-"], ["b"]),
        ("[[:alpha:]]", ["a", ":"], ["b", "["]),
        ("(?i)orders", ["Orders"], ["order"]),
        ("(?i)s.", ["Sx"], ["\u017fx"]),
        ("a(?i)b|c", ["aB", "C"], ["AB"]),
        ("(a(?i)b)c", ["aBc"], ["aBC"]),
        ("(?i:a)b", ["Ab"], ["AB"]),
        ("(?s).", ["\n"], [""]),
        (".", ["é", "\x0b"], ["\n", "\r", "\x85", "\u2028"]),
        (r"\w+\d\s", ["a1\t"], ["é1 ", "a\u0663 ", "a1\xa0"]),
        (r"\h+|\v", ["\xa0 ", "\r"], [" \n"]),
        ("a$\n?|a$\r\n", ["a", "a\n", "a\r\n"], ["a\n\n"]),
        (r"a\Z\r|\Ab\z\n?", ["a\r", "b"], ["b\n"]),
        (r"(?m)a$\n^b", ["a\nb"], ["ab"]),
        (r"a\b-\Bb?", ["a-"], ["a-b"]),
        ("(?<region>eu|us)-(?:a)(?=b)b", ["eu-ab"], ["eu-b"]),
        (".*(?<=a|bc)d", ["ad", "bcd"], ["bd", "cd"]),
        ("(?!__).*(?<!-internal)", ["orders"], ["__x", "x-internal"]),
        ("a*+a|(?>b|bc)c|d++", ["bc", "dd"], ["aa", "bcc"]),
        ("(?:a|ab){2}+c", ["aac"], ["abac"]),
        ("a{2}b{1,}?c{0,1}", ["aab", "aabbc"], ["ab", "aabcc"]),
        (r"\x41\u0042\x{43}\0104\cA\e\t", ["ABCD\x01\x1b\t"], ["ABCD"]),
        (r"\.\-\é\ ", [".-é "], ["x-é "]),
        ("[a&&b]*|}]", ["", "}]"], ["a"]),
    ],
)
def test_patterns_match_as_in_java(pattern: str, matching: list[str], others: list[str]) -> None:
    """Texts match as a whole, or they do not."""
    compiled = JavaPattern.of(pattern)
    assert [text for text in (*matching, *others) if compiled.matches(text)] == matching


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        (r"(a)\1", "an escape that is not supported at index 3"),
        (r"(?<n>a)\k<n>", "an escape that is not supported at index 7"),
        (r"a\R", "an escape that is not supported at index 1"),
        (r"\p{IsLatin}", "an escape that is not supported at index 0"),
        (r"\p{Lu", "an escape that is not supported at index 0"),
        (r"(?i)\p{Lower}", "an escape that is not supported at index 4"),
        (r"\ud83d\ude00", "an escape that is not supported at index 0"),
        (r"[\b]", "an escape that is not supported at index 1"),
        ("\\", "an escape that is not supported at index 0"),
        ("(?x)a", "a flag or group that is not supported at index 2"),
        ("(?<=a+)b", "a quantifier in a look-behind at index 5"),
        ("^*", "a repeated anchor at index 1"),
        ("a{2}{3}", "a quantifier of a quantifier at index 4"),
        ("*a", "a '*' that repeats nothing at index 0"),
        ("a{,2}", "a count that is not like {2}, {2,} or {2,5} at index 4"),
        ("a{2,1}", "a count out of range before index 5"),
        ("a{99999999999}", "a count out of range before index 13"),
        ("a)", "a ')' without its '(' at index 1"),
        ("(a", "a group without its ')' at index 1"),
        ("(?<1>a)", "an invalid or repeated name of a group at index 4"),
        ("(?<n>a)(?<n>a)", "an invalid or repeated name of a group at index 11"),
        ("[a", "a class without its ']', or an unclear '&&' at index 1"),
        ("[z-a]", "an invalid range before index 4"),
        ("[a&&]", "an empty operand in a class at index 4"),
        ("[a&&[b]c]", "characters after a class in an operand of '&&' at index 7"),
        ("(" * 51 + ")" * 51, "50 or more nested groups and classes at index 50"),
        ("a" * 20_001, "more than 20000 characters"),
        (r"\pL" * 200, "too many characters and ranges of classes at index 465"),
        ("[" + r"\PL" * 200 + "]", "too many characters and ranges of classes at index 466"),
        ("[" + r"\pL&&" * 200 + "a]", "too many characters and ranges of classes at index 194"),
    ],
)
def test_other_patterns_are_refused(pattern: str, reason: str) -> None:
    """The reason names the part of the pattern."""
    with pytest.raises(UnsupportedPattern) as refusal:
        JavaPattern.of(pattern)
    assert str(refusal.value) == reason


def test_the_work_for_intersections_is_limited() -> None:
    """Each `&&` counts the ranges on its left, even if its operand has few ranges."""
    separate = "".join(chr(0x4E00 + 2 * index) for index in range(7_000))
    with pytest.raises(UnsupportedPattern, match="too many characters and ranges of classes"):
        JavaPattern.of("[" + separate + "&&[^a]" * 2_000 + "]")


LONGEST = "a" * 249
"""As long as the longest name of a topic."""


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+b",
        "((a*)*)*b",
        "(a|aa|aaa)*(b|c)",
        ".*.*.*.*.*.*.*b",
        "(a?){249}a{249}b|(a?){1,249}b",
        "(((a?b?){100}){100}){100}b",
        "(?>(?>a+)+)b",
        "(a++)++b",
        "(?=(a+)+b)a+b",
        "(a+)+(?<!(aa|a)a)b",
        "(?>(a|aa)*?b)",
    ],
)
def test_no_pattern_backtracks(pattern: str) -> None:
    """A match and a mismatch are within the limit of steps."""
    compiled = JavaPattern.of(pattern)
    assert not compiled.matches(LONGEST)
    assert compiled.matches(f"{LONGEST}b") is ("(?<!" not in pattern)


@pytest.mark.parametrize(
    ("pattern", "text", "shown"),
    [
        ("(?>(?>(a|aa)*?b|(a{1,100}?){100})*)*", LONGEST, LONGEST),
        ("(.*(b++|a){240}){100}", LONGEST, LONGEST),
        ("a*", "a" * 500_000, "a long text"),
        (r"\b.*", " a" * 250_000, "a long text"),
        ("(?=(?>a))a*", "a" * 30_000, "a long text"),
    ],
)
def test_the_steps_of_a_match_are_limited(pattern: str, text: str, shown: str) -> None:
    """The error shows a short text; a step on a long text takes longer, so it counts as several."""
    with pytest.raises(MatchLimitExceeded) as refusal:
        JavaPattern.of(pattern).matches(text)
    steps = "a regular expression takes more than 20000 steps"
    assert str(refusal.value) == f"{steps} to match {shown}; simplify it"


def test_the_deepest_pattern_is_matched() -> None:
    """Groups with possessive quantifiers, nested as deep as possible, fit Python's stack."""
    pattern = "(?>" * 49 + "a" + ")++" * 49
    assert JavaPattern.of(pattern).matches("aaa")
