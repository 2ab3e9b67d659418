"""The house rules; each rule is proven to fail on a small bad source."""

import re
from statistics import median

import pytest

from controlplane.core.releases.behaviours import BEHAVIOURS
from tests.tidy.import_circles import (
    FRAGMENT_LINES,
    FRAGMENTS_LIMIT,
    disorder,
    documented_orders,
    folder_circle,
    fragments,
    import_circle,
)
from tests.tidy.layers import (
    LATER,
    LAYERS,
    TOP,
    dead_names,
    documented_layers,
    layers,
    one_composition_root,
    one_place,
    pure_core,
)
from tests.tidy.numbers import release_comparisons, status_codes
from tests.tidy.secrets import private
from tests.tidy.sentences import long_docstring_sentences, long_sentences, sentence_openings
from tests.tidy.source import PACKAGES, ROOT, Rule, SourceFile, offenders, parse, tracked
from tests.tidy.style import MEDIAN_LINES, docstrings, file_size, function_size, names
from tests.tidy.tiers import declared_markers, documented_markers, tiers, used_markers
from tests.tidy.wording import (
    COMMENTED,
    class_names,
    comment_openings,
    function_names,
    later_openings,
    module_names,
    openings,
    several_meanings,
    variable_names,
)


@pytest.fixture(scope="module")
def python() -> list[SourceFile]:
    """Every Python file of the repository, parsed."""
    sources = tracked("*.py")
    parse(sources)
    return sources


def check(rule: Rule, sources: list[SourceFile]) -> None:
    """Fail with one line per offender."""
    offences = offenders(rule, sources)
    assert not offences, "\n" + "\n".join(offences)


def test_layers_import_only_layers_below(python: list[SourceFile]) -> None:
    """A part of the program imports only the parts below it."""
    check(layers, python)


def test_layers_are_about_packages_that_exist(python: list[SourceFile]) -> None:
    """The table of layers names no package that was renamed or removed."""
    assert dead_names(python, {**LAYERS, **LATER, "controlplane": TOP}) == set()
    rules = {"controlplane.core": {"controlplane.embedding"}, "replay.gone": set()}
    assert dead_names(python, rules) == {"controlplane.embedding", "replay.gone"}


def test_parts_of_packages_keep_their_documented_order(python: list[SourceFile]) -> None:
    """Each part of a package imports only parts that docs/architecture.md lists before it."""
    orders = documented_orders((ROOT / "docs/architecture.md").read_text("utf-8"))
    assert {"controlplane.core", "controlplane.rest", "controlplane.worker", "replay"} <= {*orders}
    assert disorder(python, orders) == []


def test_disorder_is_found() -> None:
    """The rule reports imports of a later or neighbouring part, and a part without a place."""
    sources = [
        SourceFile("replay/a.py", "import replay.b.x"),
        SourceFile("replay/b/x.py", "import replay.c"),
        SourceFile("replay/c.py", ""),
        SourceFile("replay/d.py", ""),
    ]
    document = "| Package | Order of its parts |\n|---|---|\n| `replay` | `a` → `b`, `c` |\n\n"
    assert disorder(sources, documented_orders(document)) == [
        "replay.d is missing in a list",
        "replay.a imports replay.b, which comes no earlier",
        "replay.b.x imports replay.c, which comes no earlier",
    ]


def test_layers_are_documented() -> None:
    """The table of imports in docs/architecture.md equals the rule's table."""
    documented = documented_layers((ROOT / "docs/architecture.md").read_text("utf-8"))
    everything = {"controlplane"}, set[str]()
    expected = {name: (allowed, LATER.get(name, set())) for name, allowed in LAYERS.items()}
    # The package itself (`controlplane/__init__.py`) has no row: it may import every part.
    expected |= dict.fromkeys(TOP - {"controlplane"}, everything)
    assert documented == expected


def test_the_core_is_pure(python: list[SourceFile]) -> None:
    """The core imports no module with effects or chance: no clock, randomness, files, network."""
    check(pure_core, python)


def test_no_imports_form_a_circle(python: list[SourceFile]) -> None:
    """No module imports itself through others, deferred imports included."""
    assert import_circle(python) == []


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("from replay.b import g", "from replay.a import f"),
        ("import replay.b", "def g():\n    from replay import a"),
        ("from . import b", "from .a import f"),
    ],
)
def test_a_circle_of_imports_is_found(first: str, second: str) -> None:
    """Two modules that import each other form a circle, in any spelling."""
    texts = {"a": first, "b": second, "c": "from replay import a"}
    sources = [SourceFile(f"replay/{name}.py", text) for name, text in texts.items()]
    circle = import_circle(sources)
    assert circle[0] == circle[-1]
    assert set(circle) == {"replay.a", "replay.b"}


def test_imports_for_types_form_no_circle() -> None:
    """An import under `TYPE_CHECKING` never happens in a run."""
    for_types = "if TYPE_CHECKING:\n    from replay.a import f"
    sources = [
        SourceFile("replay/a.py", "from replay.b import g"),
        SourceFile("replay/b.py", for_types),
    ]
    assert import_circle(sources) == []


def test_no_folders_form_a_circle(python: list[SourceFile]) -> None:
    """The folders and modules of a package import each other in one direction."""
    assert folder_circle(python) == []


def test_a_circle_of_folders_is_found() -> None:
    """Two folders that import each other form a circle, even without a circle of modules."""
    texts = {
        "replay/x/a.py": "from replay.y.b import f",
        "replay/y/b.py": "",
        "replay/y/c.py": "from replay.x import d",
        "replay/x/d.py": "",
    }
    sources = [SourceFile(path, text) for path, text in texts.items()]
    assert import_circle(sources) == []
    assert set(folder_circle(sources)) == {"replay.x", "replay.y"}


def test_few_short_files_have_one_importer(python: list[SourceFile]) -> None:
    """The number of them does not grow; longer files and two importers do not count."""
    texts = {
        "replay/x/a.py": "from replay.x import b, c, d",
        "replay/x/b.py": "",
        "replay/x/c.py": "",
        "replay/x/d.py": "import replay.x.c" + FRAGMENT_LINES * "\n",
    }
    assert fragments([SourceFile(*item) for item in texts.items()]) == ["replay.x.b"]
    assert len(fragments(python)) <= FRAGMENTS_LIMIT, fragments(python)


def test_clients_have_one_place(python: list[SourceFile]) -> None:
    """One folder alone imports aiokafka, and one package alone pyspark."""
    check(one_place, python)


def test_services_are_built_in_one_place(python: list[SourceFile]) -> None:
    """One function builds the service of a log, for programs and for tests."""
    check(one_composition_root, python)


def test_status_codes_have_one_place(python: list[SourceFile]) -> None:
    """Only one module has HTTP's status codes."""
    check(status_codes, python)


def test_releases_are_compared_in_one_place(python: list[SourceFile]) -> None:
    """Only one table compares releases."""
    check(release_comparisons, python)


def test_every_behaviour_is_looked_at(python: list[SourceFile]) -> None:
    """Code outside of the tables of releases reads each behaviour."""
    tables = "controlplane/core/releases/behaviours.py", "controlplane/core/releases/profiles.py"
    asking = [source.text for source in python if source.in_package and not source.inside(*tables)]
    words = set(re.findall(r"\w+", "\n".join(asking)))
    assert {row.field for row in BEHAVIOURS} <= words


def test_files_are_short(python: list[SourceFile]) -> None:
    """No Python file or scenario is longer than its limit."""
    check(file_size, [*python, *tracked("*.scenario")])


def test_files_are_mostly_shorter(python: list[SourceFile]) -> None:
    """The median length of the packages' files is below its limit."""
    lengths = [source.text.count("\n") for source in python if source.in_package and source.text]
    assert median(lengths) <= MEDIAN_LINES


def test_functions_are_short(python: list[SourceFile]) -> None:
    """No function is longer than its limit."""
    check(function_size, python)


def test_names_say_something(python: list[SourceFile]) -> None:
    """No name consists of words that fit everything."""
    check(names, python)


def test_everything_public_is_documented(python: list[SourceFile]) -> None:
    """Modules, public names and tests have docstrings."""
    check(docstrings, [source for source in python if source.text])


def test_docstrings_open_with_their_subject(python: list[SourceFile]) -> None:
    """A docstring opens with the thing or the verb, not with a question word."""
    check(openings, python)


def test_later_sentences_open_with_their_subject(python: list[SourceFile]) -> None:
    """No later sentence of a docstring opens with a question word or the like."""
    check(later_openings, python)


def test_comments_open_with_their_subject() -> None:
    """A comment of a program, a script or a settings file opens with the thing or the verb."""
    check(comment_openings, tracked(*COMMENTED))


def test_sentences_of_pages_are_short() -> None:
    """A sentence of a page, a README or the changelog has at most twenty words."""
    check(long_sentences, tracked("*.md"))


def test_sentences_of_texts_open_with_their_subject() -> None:
    """No sentence of a page or of a scenario's comments opens with a question word or the like."""
    check(sentence_openings, tracked("*.md", "*.scenario"))


def test_sentences_of_docstrings_are_short(python: list[SourceFile]) -> None:
    """A sentence of a docstring has at most twenty words."""
    check(long_docstring_sentences, python)


def test_modules_and_classes_are_nouns(python: list[SourceFile]) -> None:
    """A module's name is a noun; a class's name is more than a vague noun."""
    check(module_names, python)
    check(class_names, python)


def test_no_variable_has_a_pronoun_as_name(python: list[SourceFile]) -> None:
    """No variable has a pronoun as name."""
    check(variable_names, python)


def test_no_function_has_a_pronoun_as_name(python: list[SourceFile]) -> None:
    """No function, method or attribute has a pronoun or a bare participle as name."""
    check(function_names, python)


def test_a_class_name_means_one_thing(python: list[SourceFile]) -> None:
    """No two files define a class or an alias of a type with the same name."""
    assert several_meanings(python) == []


def test_two_classes_of_one_name_are_found() -> None:
    """Definitions in several files count, as class or alias, private or not; imports do not."""
    sources = [
        SourceFile("controlplane/a.py", "class Row: ...\nEnds = dict\nclass _Cell: ..."),
        SourceFile("controlplane/b.py", "from a import Row\nLIMIT = 1\nEnds = dict"),
        SourceFile("replay/c.py", "class Row: ...\nclass Cell: ..."),
    ]
    assert several_meanings(sources) == [
        "Cell: controlplane/a.py:3 replay/c.py:2",
        "Ends: controlplane/a.py:2 controlplane/b.py:3",
        "Row: controlplane/a.py:1 replay/c.py:1",
    ]


def test_markers_are_declared_and_documented(python: list[SourceFile]) -> None:
    """Each marker in use is in pyproject.toml and in docs/testing.md, and no other is."""
    used = used_markers(source for source in python if source.path.startswith("tests/"))
    assert used == declared_markers() == documented_markers()


def test_the_quick_tier_starts_nothing(python: list[SourceFile]) -> None:
    """A test that starts Java, a broker, a browser or Spark bears a marker of a longer tier.

    Processes need no marker: `tests/no_processes.py` skips the tests that start one.
    """
    check(tiers, python)


def test_nothing_private_is_tracked() -> None:
    """No file names the machine it was made on or a registry, or holds a secret."""
    check(private, tracked())


def test_both_packages_are_looked_at(python: list[SourceFile]) -> None:
    """The rules see the files of both packages: an empty list would break no rule."""
    parts = {source.path.split("/")[0] for source in python}
    assert parts >= {*PACKAGES, "tests"}


CORE = "controlplane/core/x.py"
LOGS = "controlplane/logs/x.py"
REST = "controlplane/rest/x.py"
PLANE = "controlplane/plane.py"
TEST = "tests/test_x.py"
PAGE = "docs/x.md"

BROKEN: list[tuple[Rule, str, str]] = [
    (layers, CORE, "from controlplane.logs.log import Log"),
    (layers, CORE, "from ..logs import log"),
    (layers, LOGS, "import controlplane.rest.app"),
    (layers, REST, "from controlplane import scenario"),
    (layers, REST, "from controlplane.plane import ControlPlane"),
    (layers, PLANE, "from controlplane.rest.app import App"),
    (layers, PLANE, "def f():\n    from controlplane.scenario import story"),
    (layers, REST, "from controlplane import cli"),
    (layers, "controlplane/cli/x.py", "import replay.engine"),
    (layers, "replay/x.py", "from controlplane.rest import app"),
    (layers, "controlplane/page/x.py", "from controlplane.rest import app"),
    (layers, "controlplane/page/x.py", "import replay.report"),
    (pure_core, CORE, "import asyncio"),
    (pure_core, CORE, "def f():\n    import time"),
    (pure_core, CORE, "from os.path import join"),
    (pure_core, CORE, "import structlog"),
    (pure_core, CORE, "from datetime import datetime\nx = datetime.now()"),
    (one_place, LOGS, "from aiokafka import AIOKafkaClient"),
    (one_place, LOGS, "import pyspark.sql"),
    (one_composition_root, TEST, "from controlplane.rest.service import Service\nx = Service(y)"),
    (one_composition_root, REST, "from controlplane.rest import service\nx = service.Service(y)"),
    (status_codes, REST, "def f(status):\n    return status == 404"),
    (status_codes, REST, "answer(409)"),
    (status_codes, REST, "CONFLICT_STATUS = 409"),
    (status_codes, REST, "answer(status=500)"),
    (status_codes, REST, "CODES = {'gone': 404}"),
    (status_codes, REST, "def f(code=500): ..."),
    (status_codes, REST, "from http import HTTPStatus"),
    (release_comparisons, REST, "x = profile.release == '3.4'"),
    (release_comparisons, REST, "x = release in {'3.4.0', '3.5'}"),
    (release_comparisons, REST, "x = numbers >= (3, 4)"),
    (release_comparisons, REST, "x = one.release < other.release"),
    (release_comparisons, REST, "match r:\n    case '3.4': pass"),
    (release_comparisons, REST, "x = name != 'kip'"),
    (file_size, CORE, "\n" * 501),
    (file_size, "scenarios/x.scenario", "\n" * 121),
    (function_size, CORE, "def f():\n" + "    x = 1\n" * 60),
    (function_size, CORE, "async def f():\n" + "    x = 1\n" * 60),
    (long_sentences, PAGE, f"Short.\n\n- A list\n  item: {21 * 'word '}."),
    (long_sentences, PAGE, f"{10 * 'word '}\n{10 * 'word '}e.g. [two words](target)."),
    (sentence_openings, PAGE, "A log. What it holds,\nis state."),
    (sentence_openings, PAGE, "- A log\n- `state`: a log (folded). Of it,\n  all is kept."),
    (sentence_openings, "scenarios/x.scenario", "# A stop.\n#\n# It ends. That\n# is all.\nstop"),
    (long_docstring_sentences, CORE, f'"""X.\n\n{21 * "word "}\n"""'),
    (long_docstring_sentences, TEST, f'A = 1\n"""A {10 * "word "}\n{10 * "word "}"""'),
    (names, CORE, "class LogManager: ..."),
    (names, CORE, "def do_it(): ..."),
    (names, CORE, "def f(data): ..."),
    (names, CORE, "for string_utils in (): ..."),
    (names, CORE, "ms_timeout = 1"),
    (names, "controlplane/core/helpers.py", ""),
    (docstrings, CORE, "x = 1"),
    (docstrings, CORE, '"""X."""\ndef f(): ...'),
    (docstrings, CORE, '"""X."""\nclass A:\n    """A."""\n    def f(self): ...'),
    (docstrings, TEST, '"""X."""\nasync def test_f(): ...'),
    (docstrings, TEST, '"""X."""\nclass TestA:\n    def test_f(self): ...'),
    (openings, CORE, '"""What it is."""'),
    (openings, CORE, '"""X."""\ndef f():\n    """Whether it is."""'),
    (openings, CORE, '"""X."""\nLIMIT = 1\n"""Whether it is."""'),
    (openings, CORE, '"""To be read."""'),
    (openings, "benchmarks/x.py", '"""Where archives lie."""'),
    (openings, "examples/x.py", '"""How it is read."""'),
    (openings, TEST, '"""X."""\ndef test_f():\n    """Its name is kept."""'),
    (openings, TEST, '"""Not in a log."""'),
    (later_openings, CORE, '"""A log. What it holds is state."""'),
    (later_openings, CORE, '"""X."""\nLIMIT = 1\n"""A limit! Those of Kafka differ."""'),
    (later_openings, TEST, '"""Logs (not `a.b`).\n    Whose they are, is unknown.\n    """'),
    (later_openings, CORE, '"""A log.\n\n    - a\n\n    Whether it is one?\n    """'),
    (comment_openings, CORE, "x = 1  # What it is"),
    (comment_openings, CORE, "# How it is read.\n# To be sure.\nx = 1"),
    (comment_openings, TEST, "# Of each one.\nx = 1"),
    (comment_openings, "x.toml", "# Whose it is\nx = 1"),
    (comment_openings, "x.toml", "x = 1  # a limit\ny = 2  # Whose it is"),
    (comment_openings, "x.properties", "# Of this nothing"),
    (comment_openings, "tests/x.sql", "select 1;\n-- Which records are in"),
    (comment_openings, "tests/X.java", "/**\n * What it makes.\n * Which is so.\n */"),
    (comment_openings, "tests/X.java", "int x; // Whether it is"),
    (comment_openings, "tools/x", "# Those of Spark"),
    (module_names, "controlplane/core/reading.py", ""),
    (module_names, "controlplane/told/x.py", ""),
    (class_names, CORE, "class Source: ..."),
    (class_names, CORE, "class _Look: ..."),
    (class_names, CORE, "Place = tuple[int, str]"),
    (variable_names, CORE, "ends = [one.end for one in parts]"),
    (variable_names, CORE, "def f(told): ..."),
    (variable_names, CORE, "known = 1"),
    (variable_names, CORE, "def _f(*, wanted): ..."),
    (variable_names, CORE, "class _A:\n    def f(self, given): ..."),
    (variable_names, CORE, "def f():\n    def g(there): ..."),
    (variable_names, CORE, "f = lambda more: 1"),
    (variable_names, CORE, "match x:\n    case [found]: pass"),
    (variable_names, CORE, "match x:\n    case [1, *seen]: pass"),
    (variable_names, CORE, "try: ...\nexcept OSError as given: ..."),
    (variable_names, "benchmarks/x.py", "for what in (): ..."),
    (variable_names, TEST, "def f():\n    one = 1"),
    (function_names, CORE, "def told(): ..."),
    (function_names, TEST, "class A:\n    async def _shown(self): ..."),
    (function_names, CORE, "class A:\n    def f(self):\n        self._found = 1"),
    (tiers, TEST, "import pyspark\ndef test_x(): ..."),
    (tiers, TEST, "def test_x(broker): ..."),
    (tiers, TEST, "@pytest.mark.parametrize('x', [])\nasync def test_x(spark, x): ..."),
    (private, "x.md", "see /ro" + "ot/x"),
    (private, "x.md", "see /ho" + "me/x"),
    (private, "x.lock", "https://py" + "pi.org/simple"),
    (private, "x.lock", "repo1.mav" + "en.org"),
    (private, "x.pem", "-----BEGIN PRIV" + "ATE KEY-----"),
]


@pytest.mark.parametrize(("rule", "path", "text"), BROKEN)
def test_a_rule_sees_when_it_is_broken(rule: Rule, path: str, text: str) -> None:
    """Each bad source has exactly one offender."""
    assert len(offenders(rule, [SourceFile(path, text)])) == 1


KEPT: list[tuple[Rule, str, str]] = [
    (layers, LOGS, "from controlplane.core.entry import Entry"),
    (layers, REST, "from . import errors"),
    (layers, PLANE, "def f():\n    from controlplane.rest.app import App"),
    (layers, PLANE, "if TYPE_CHECKING:\n    from controlplane.rest.app import App"),
    (layers, REST, "from controlplane.page.html import el"),
    (layers, "replay/x.py", "from controlplane.page.html import el"),
    (layers, "controlplane/__main__.py", "import controlplane.cli.serve.serve_command"),
    (layers, "tests/test_x.py", "import replay.engine"),
    (pure_core, CORE, "import re, msgspec\nfrom controlplane.core import entry"),
    (pure_core, LOGS, "import asyncio"),
    (one_place, "controlplane/logs/kafka/x.py", "import aiokafka"),
    (one_composition_root, TEST, "from selenium.webdriver import Service\nx = Service()"),
    (one_composition_root, TEST, "from controlplane.rest.service import compose\nx = compose(y)"),
    (status_codes, "controlplane/rest/errors.py", "NOT_FOUND = 404"),
    (status_codes, REST, "LIMIT = 500\ndef f(size: int = 200): ...\nf(size=300)"),
    (release_comparisons, "controlplane/core/releases/profiles.py", "x = release >= '3.4'"),
    (release_comparisons, REST, "x = mine.release == other.release"),
    (release_comparisons, REST, "x = schema.version < 4"),
    (names, CORE, "metadata = timeout_ms = undo_steps = 1"),
    (names, TEST, "def test_x(data): ..."),
    (openings, CORE, '"""The state of a log."""'),
    (later_openings, CORE, '"""What it is: that of a log."""'),
    (later_openings, CORE, '"""A log, e.g. To or i.e. What. `x.`."""'),
    (later_openings, CORE, '"""A log. "What is it? What else?" asks the page. `What.` is code."""'),
    (later_openings, CORE, '"""A log.\n\n    - a. \n      What is b\n    - What is c\n    """'),
    (later_openings, CORE, '"""Read.\n\n    Raises:\n        A. What it holds\n    """'),
    (comment_openings, CORE, "# The reader keeps it,\n# What follows is read.\nx = '# What'"),
    (comment_openings, "tests/X.java", 'String x = "http://What it is";'),
    (module_names, "controlplane/core/encoding.py", ""),
    (class_names, CORE, "class StateRow: ..."),
    (variable_names, CORE, "ends = [part.end for part in parts]"),
    (variable_names, CORE, "def f(known): ..."),
    (variable_names, CORE, "class A:\n    known: int\n    def f(self, what): ..."),
    (variable_names, CORE, "class _A:\n    known: int"),
    (variable_names, CORE, "f(given=1)"),
    (docstrings, CORE, '"""X."""\ndef _f(): ...'),
    (docstrings, TEST, '"""X."""\ndef build(): ...'),
    (tiers, TEST, "pytestmark = [pytest.mark.java]\nfrom pyspark.sql import X\ndef test_x(): ..."),
    (tiers, TEST, "@pytest.mark.broker\ndef test_x(broker): ..."),
    (tiers, TEST, "import subprocess\ndef test_x(): ..."),
    (long_sentences, PAGE, f"{19 * 'word '}`{9 * 'code '}`. {19 * 'Word '}1 2 3."),
    (long_sentences, PAGE, f"```text\n{21 * 'word '}\n```\n| {21 * 'cell '}|\n# {21 * 'title '}"),
    (long_sentences, PAGE, f"Shown:\n\n    {21 * 'output '}\n"),
    (sentence_openings, PAGE, "A log, e.g. To. [What is it](x.md)?\n| Of a row |\n# What it is"),
    (sentence_openings, "scenarios/x.scenario", "# A stop.\n\nWhat is no comment.\n----\nOf w1"),
    (long_docstring_sentences, CORE, f'"""{20 * "word "}. {20 * "Word "}."""'),
    (long_docstring_sentences, CORE, f'"""X.\n\nRaises:\n    E: {21 * "word "}\n"""'),
    (long_docstring_sentences, CORE, f'"""X. Exit\ncode 0: {21 * "word "}"""'),
    (private, "x.md", "GET /workers/a/home/x, `{home}/root/x`"),
]


@pytest.mark.parametrize(("rule", "path", "text"), KEPT)
def test_a_rule_accepts_good_code(rule: Rule, path: str, text: str) -> None:
    """A rule accepts good code; otherwise it would be switched off."""
    assert not offenders(rule, [SourceFile(path, text)])
