"""Limits of Kafka's config providers: `allowed.paths` and `allowlist.pattern`.

The expected results of paths and patterns are those of Kafka 3.9.1.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from controlplane.settings import SettingsError, WorkerSettings
from controlplane.settings.configuration import Configuration
from controlplane.settings.providers import Providers
from controlplane.settings.sources import file_values

KAFKAS = "org.apache.kafka.common.config.provider"
PATHS = "config.providers.p.param.allowed.paths"
PATTERN = "config.providers.p.param.allowlist.pattern"


def of_files(kind: str, allowed: str | None) -> Providers:
    """A provider of files, limited to paths."""
    parameters = {} if allowed is None else {"allowed.paths": allowed}
    return Providers({"p": f"{KAFKAS}.{kind}ConfigProvider"}, {}, {"p": parameters})


def of_variables(pattern: str | None, *names: str) -> Providers:
    """A provider of variables, limited to a pattern."""
    parameters = {} if pattern is None else {"allowlist.pattern": pattern}
    variables = dict.fromkeys(names, "value")
    return Providers({"p": f"{KAFKAS}.EnvVarConfigProvider"}, variables, {"p": parameters})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory: folders with a file `k` each; `in` has a link to `out/below`."""
    monkeypatch.chdir(tmp_path)
    for name in ("in", "in2", "out", "out/below"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "k").write_text(f"k={name}")
    (tmp_path / "in" / "link").symlink_to("../out/below")
    (tmp_path / "dangling").symlink_to("nowhere")
    return tmp_path


def in_file(folder: Path, allowed: str | None, path: str) -> str:
    """The value `k` of a file; the reference if it is not resolved."""
    providers = of_files("File", allowed and allowed.replace("F", str(folder)))
    providers.load()
    return providers.of_connector("x", f"${{p:{path.replace('F', str(folder))}:k}}").text


def in_directory(folder: Path, allowed: str | None, path: str) -> str:
    """The value of the file `k` in the directory of a path; the reference if not resolved."""
    providers = of_files("Directory", allowed and allowed.replace("F", str(folder)))
    providers.load()
    path = path.replace("F", str(folder)).removesuffix("/k")
    return providers.of_connector("x", f"${{p:{path}:k}}").text.removeprefix("k=")


@pytest.mark.parametrize("reader", [in_file, in_directory])
@pytest.mark.parametrize(
    ("allowed", "path", "value"),
    [
        (None, "F/out/k", "out"),
        ("", "F/out/k", "out"),
        ("F/in", "F/in/k", "in"),
        ("F/in,", "F/in/k", "in"),
        ("F/in,F/out", "F/out/k", "out"),
        ("F/none/../in", "F/in/k", "in"),
        ("F/in", "/F/./in/k", "in"),
        ("F/in", "F/out/../in/k", "in"),
        ("F/in", "F/in/link/k", "out/below"),
        ("F/in", "F/in/link/../k", "in"),
        ("F/in", "F/in/../out/k", None),
        ("F/in", "F/in2/k", None),
        ("F/in", "F/out/k", None),
        ("F/in", "F/none/k", None),
        ("F/in", "in/k", None),
        (",", "F/in/k", None),
    ],
)
def test_only_allowed_paths_are_read(
    folder: Path,
    reader: Callable[[Path, str | None, str], str],
    allowed: str | None,
    path: str,
    value: str | None,
) -> None:
    """A reference to another path stays; `..` is removed first, and links are followed."""
    text = reader(folder, allowed, path)
    if value is None:
        assert text.startswith("${p:")
    else:
        assert text == value


def test_a_file_can_be_allowed(folder: Path) -> None:
    """An allowed path may be a file."""
    assert in_file(folder, "F/in/k", "F/in/k") == "in"
    assert in_file(folder, "F/in/k", "F/out/k").startswith("${p:")


@pytest.mark.parametrize("kind", ["File", "Directory"])
@pytest.mark.parametrize(
    ("allowed", "sentence"),
    [
        ("in", "has the path 'in', which is not absolute"),
        ("F/in, F/out", "has the path ' F/out', which is not absolute"),
        (",F/in", "has the path '', which is not absolute"),
        ("F/none", "has the path F/none, which does not exist"),
        ("F/in,F/dangling", "has the path F/dangling, which does not exist"),
    ],
)
def test_invalid_paths_are_refused(folder: Path, kind: str, allowed: str, sentence: str) -> None:
    """A worker does not start with a relative or missing path."""
    providers = of_files(kind, allowed.replace("F", str(folder)))
    with pytest.raises(SettingsError) as refusal:
        providers.load()
    assert str(refusal.value).startswith(f"{PATHS} {sentence.replace('F', str(folder))}:")


def test_limits_apply_before_they_are_checked(folder: Path) -> None:
    """A reference outside of the limits stays, even before `load` has checked the limits."""
    reference = f"${{p:{folder}/out/k:k}}"
    assert of_files("File", f"{folder}/in").of_connector("x", reference).text == reference
    assert of_variables("A", "B").of_connector("x", "${p:B}").text == "${p:B}"


@pytest.mark.parametrize(
    ("pattern", "allowed", "others"),
    [
        (None, ["A", "ü"], []),
        ("A", ["A"], ["AB", "BA", "a", "A\n"]),
        ("A|AB", ["A", "AB"], ["ABC"]),
        ("A.*", ["A", "AB"], ["BA", "A\r"]),
        ("A_[A-Z0-9]{2,}", ["A_B1"], ["A_B"]),
        ("^(?:A|B)\\.\\w+$", ["A.b"], ["A.é", "AXb"]),
        ("(?!SECRET).+", ["A"], ["SECRET_A"]),
        ("(?i)as", ["AS", "as"], ["a\u017f"]),
        ("\\d++", ["12"], ["\u0663"]),
        ("[^a\\-\\]]", ["b"], ["a", "-", "]"]),
        ("[A-Z&&[^B]]+", ["AC"], ["AB"]),
        ("\\p{Upper}+|\\QA.b\\E", ["AB", "A.b"], ["a", "Axb"]),
        ("", [], ["A"]),
    ],
)
def test_a_pattern_matches_whole_names(
    pattern: str | None, allowed: list[str], others: list[str]
) -> None:
    """A reference to a variable whose name does not match stays."""
    providers = of_variables(pattern, *allowed, *others)
    providers.load()
    for name in allowed:
        assert providers.of_connector("x", f"${{p:{name}}}").text == "value"
    for name in others:
        assert providers.of_connector("x", f"${{p:{name}}}").text == f"${{p:{name}}}"


@pytest.mark.parametrize(
    "pattern",
    [
        *("(", "a)", "*a", "a{3,1}", "a{,2}", "a**", "[a", "[b-a]", "a{99999999999999999999}"),
        *("[]", "[a&&]", "(?P<n>a)", "(a)(?(1)b|c)", "(?#c)a", "\\y", "\\"),
        *("(?<n>a)\\k<n>", "(a)\\1", "\\R", "(?x)a", "\\p{IsLatin}"),
    ],
)
def test_patterns_without_a_match_like_javas_are_refused(pattern: str) -> None:
    """A worker does not start with an invalid pattern, nor with one that only Java can match."""
    providers = of_variables(pattern, "a")
    with pytest.raises(SettingsError) as refusal:
        providers.load()
    assert str(refusal.value).startswith(f"{PATTERN} is {pattern}, an unusable pattern: ")
    with pytest.raises(SettingsError):
        providers.of_connector("x", "${p:a}")


def test_limits_in_a_file_hold_for_worker_settings(tmp_path: Path) -> None:
    """The limit of a file applies to its own references; an empty pattern is refused."""
    lines = ["config.providers=p", f"config.providers.p.class={KAFKAS}.EnvVarConfigProvider"]
    file = tmp_path / "worker.properties"

    def group_id(pattern: str) -> str | None:
        file.write_text("\n".join([*lines, f"{PATTERN}={pattern}", "group.id=${p:A}"]))
        configuration = Configuration(file_values(file), variables={"A": "value"})
        return configuration.settings(WorkerSettings).group_id

    assert group_id("A") == "value"
    with pytest.raises(SettingsError, match=rf":4: group\.id is \${{p:A}}: {PATTERN} forbids it$"):
        group_id("B")
    with pytest.raises(SettingsError, match=rf":3: {PATTERN} is empty: use a pattern"):
        group_id("")
    with pytest.raises(SettingsError, match=rf":3: {PATTERN} is \("):
        group_id("(")
