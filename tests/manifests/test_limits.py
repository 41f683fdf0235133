"""What no manifest needs is refused at its place, before it costs time or memory."""

import pytest

from reconciler.core.diagnostics import Diagnostic
from reconciler.manifests.reading import compose as composer
from reconciler.manifests.reading.compose import compose
from reconciler.manifests.reading.refusals import (
    LONGEST_LINE,
    MOST_BYTES,
    MOST_DOCUMENT_EVENTS,
    MOST_DOCUMENTS,
    MOST_PROBLEMS,
)
from reconciler.manifests.validation.problems import MOST_PROBLEMS as MOST_SHOWN
from tests.manifests.conftest import LoadFiles, codes, volume

pytestmark = pytest.mark.slow  # files as large as the limits let them be

Refusal = tuple[str, int, int]  # code, line, column


def refusals(data: bytes | str) -> list[Refusal]:
    found = compose(data.encode() if isinstance(data, str) else data, "a.yaml").diagnostics
    return [position(problem) for problem in found]


def position(problem: Diagnostic) -> Refusal:
    assert problem.span is not None
    assert problem.span.file == "a.yaml"
    return problem.code, problem.span.line, problem.span.column


class Counting:
    """Stands for PyYAML's loader and counts the events that were asked for."""

    asked = 0

    def __init__(self, text: str) -> None:
        self._loader = composer_loader(text)

    def get_event(self) -> object:
        Counting.asked += 1
        return self._loader.get_event()


composer_loader = composer._LOADER


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> type[Counting]:
    Counting.asked = 0
    monkeypatch.setattr(composer, "_LOADER", Counting)
    return Counting


@pytest.mark.parametrize(
    ("data", "column"),
    [
        ("[" * 100_000, 65),
        ("- " * 100_000, 129),
        ("{a: " * 100_000, 257),
        ("[" * 64 + "]" * 64 + "\n---\n" + "[" * 65, 65),
    ],
)
def test_deep_nesting_is_refused_where_it_becomes_too_deep(
    data: str, column: int, counted: type[Counting]
) -> None:
    assert [found[::2] for found in refusals(data)] == [("too-deep", column)]
    assert counted.asked < 300


def test_nesting_through_aliases_counts() -> None:
    half = "[" * 33 + "{}" + "]" * 33
    data = f"a: &a {half.format('x')}\nb: &b {half.format('*a')}\n"
    assert refusals(data) == [("too-deep", 2, 40)]


def test_nesting_of_64_is_read() -> None:
    assert refusals("[" * 64 + "]" * 64) == []


@pytest.mark.parametrize(
    ("first", "other"),
    [("&a0 [x, x]", "[{}]"), ("&a0 {k: x}", "{{l: [{}]}}"), ("&a0 {k: x}", "{{<<: [{}]}}")],
    ids=["lists", "mappings", "merge keys"],
)
def test_aliases_that_multiply_are_refused_after_a_few_events(
    first: str, other: str, counted: type[Counting]
) -> None:
    lines = [f"a0: {first}"]
    for level in range(1, 30):
        aliases = ", ".join([f"*a{level - 1}"] * 10)
        lines.append(f"a{level}: &a{level} {other.format(aliases)}")
    (found,) = compose("\n".join(lines).encode(), "a.yaml").diagnostics
    assert found.code == "too-large"
    assert "aliases" in found.message
    assert found.span is not None
    assert found.span.line == 5
    assert counted.asked < 100


def test_a_document_of_too_many_values_is_refused(counted: type[Counting]) -> None:
    assert refusals("- x\n" * 1_000_000) == [("too-large", MOST_DOCUMENT_EVENTS - 1, 3)]
    assert counted.asked < MOST_DOCUMENT_EVENTS + 10


def test_a_file_of_too_many_documents_is_refused(counted: type[Counting]) -> None:
    assert refusals("---\n" * 1_000_000) == [("too-large", MOST_DOCUMENTS + 1, 1)]
    assert counted.asked < 4 * MOST_DOCUMENTS


def test_a_file_of_too_many_values_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(composer, "MOST_FILE_EVENTS", 100)
    assert refusals("[1, 2, 3]\n--- \n" * 30) == [("too-large", 41, 1)]


def test_ten_thousand_documents_in_one_file_are_read() -> None:
    one = "kind: Volume\nmetadata: {name: data, app: shop}\nspec:\n  size_gb: 10\n  region: ams\n"
    composed = compose(("---\n".join([one] * 10_000)).encode(), "a.yaml")
    assert composed.diagnostics == []
    assert len(composed.documents) == 10_000


def test_a_large_file_is_refused_unread() -> None:
    assert refusals(b"#" * (MOST_BYTES + 1)) == [("file-too-large", 1, 1)]


def test_a_line_too_long_for_positions_is_refused() -> None:
    assert refusals("a: 1\nb: " + "x" * LONGEST_LINE) == [("line-too-long", 2, 1)]


def test_many_problems_end_the_file() -> None:
    assert len(refusals("a: 1\n" * 1_000)) == MOST_PROBLEMS + 1


def test_tag_directives_are_refused_before_the_parser_compares_each_with_each(
    counted: type[Counting],
) -> None:
    data = "".join(f"%TAG !a{number}! x\n" for number in range(100_000)) + "--- 1\n"
    assert refusals("# first\n" + data) == [("tag-refused", 2, 1)]
    assert counted.asked == 0


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"a: 1\nb: x\xff\n", ("not-utf8", 2, 5)),
        ("a: é".encode() + b"\xc3\n", ("not-utf8", 1, 5)),
        (b"\xef\xbb\xbfa: \xff\n", ("not-utf8", 1, 4)),
        ("a: 1\n".encode("utf-16"), ("not-utf8", 1, 1)),
        ("a: 1\n".encode("utf-16-le"), ("not-utf8", 1, 1)),
        ("a: 1\n".encode("utf-32-be"), ("not-utf8", 1, 1)),
        (b"a: 1\r\nb: x\0y\n", ("control-character", 2, 5)),
        (b"a: \x1b[31m\n", ("control-character", 1, 4)),
        ("a: x\u0085y\n".encode(), ("control-character", 1, 5)),
        ("a: x\u2028y\n".encode(), ("control-character", 1, 5)),
        ("a: 1\n\ufeffb: 2\n".encode(), ("control-character", 2, 1)),
    ],
)
def test_bytes_that_are_no_text_are_refused_at_their_place(data: bytes, expected: Refusal) -> None:
    assert refusals(data) == [expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a:\n\tb: 1\n", ("tab-indentation", 2, 1)),
        ("a:\n  b: 1\n  \tc: 1\n", ("tab-indentation", 3, 3)),
        ("a: {b: 1\n", ("yaml-syntax", 1, 4)),
        ("a: {b: 1]\n", ("yaml-syntax", 1, 9)),
        ("a: 'b\n", ("yaml-syntax", 1, 4)),
        ("a: ]\n", ("yaml-syntax", 1, 4)),
        ("a: 1\n- b\n", ("yaml-syntax", 2, 1)),
        ("- a\nb: 1\n", ("yaml-syntax", 2, 1)),
        ("a:\n    b: 1\n  c: 2\n", ("yaml-syntax", 3, 3)),
        ("a: `b`\n", ("yaml-syntax", 1, 4)),
        ("%FOO\n--- 1\n", ("yaml-syntax", 1, 1)),
        ("a: b\n...\nfoo: }\n", ("yaml-syntax", 3, 1)),
        ("a: 1\nb: 2\na: 3\n", ("duplicate-key", 3, 1)),
        ('a: 1\n"a": 3\n', ("duplicate-key", 2, 1)),
        ("a: &a {x: 1}\nb:\n  <<: *a\n  <<: *a\n", ("duplicate-key", 4, 3)),
        ("a: !!str x\n", ("tag-refused", 1, 4)),
        ("a: !!python/object:os.system {}\n", ("tag-refused", 1, 4)),
        ("a: ! x\n", ("tag-refused", 1, 4)),
        ("!x a: 1\n", ("tag-refused", 1, 1)),
        ("a: {1: x}\n", ("non-string-key", 1, 5)),
        ("a: {~: x}\n", ("non-string-key", 1, 5)),
        ("?\n: x\n", ("non-string-key", 1, 2)),
        ("? [a]\n: b\n", ("non-string-key", 1, 3)),
        ("a: &a x\n*a : y\n", ("non-string-key", 2, 1)),
        ("a: *b\n", ("unknown-anchor", 1, 4)),
        ("a: &a x\n---\nb: *a\n", ("unknown-anchor", 3, 4)),
        ("a: &a {b: *a}\n", ("recursive-alias", 1, 11)),
        ("a: {<<: [1]}\n", ("bad-merge", 1, 9)),
    ],
)
def test_yaml_that_no_manifest_needs_is_refused_at_its_place(text: str, expected: Refusal) -> None:
    assert refusals(text) == [expected]


MANY = 10_000
WRONG = volume("data", "{size_gb: x}")


@pytest.mark.parametrize(
    "text",
    [
        WRONG * MANY,
        "---\nx: 1\n" * MANY,
        volume("data", "{" + ", ".join(f"x{number}: 1" for number in range(MANY - 10)) + "}"),
        volume("data") * MANY,
        "".join(volume(f"v{number}", f"{{from: {{volume: none{number}}}}}") for number in range(MANY)),
    ],
    ids=["bad values", "no manifests", "unknown fields", "duplicates", "unknown references"],
)
def test_errors_without_number_are_not_all_reported(text: str, load_files: LoadFiles) -> None:
    *shown, last = load_files({"a.yaml": text, "b.yaml": WRONG}).diagnostics[:-1]
    assert len(shown) == MOST_SHOWN
    assert (last.code, last.severity) == ("too-many-problems", "error")
    assert last.span is not None
    assert shown[-1].span is not None
    assert last.span.file == "a.yaml"
    assert last.span[1:] >= shown[-1].span[1:]


def test_as_many_errors_as_are_shown_are_not_too_many(load_files: LoadFiles) -> None:
    assert codes(load_files({"a.yaml": WRONG * MOST_SHOWN})) == ["wrong-type"] * MOST_SHOWN


def test_warnings_without_number_hide_no_error(load_files: LoadFiles) -> None:
    surprising = "".join(volume(f"v{number}", "{size_gb: 012}") for number in range(MOST_SHOWN + 50))
    loaded = load_files({"a.yaml": surprising + WRONG})
    counted = [(str(item.severity), item.code) for item in loaded.diagnostics]
    assert counted.count(("warning", "yaml-1.1-surprise")) == MOST_SHOWN
    assert counted.count(("warning", "too-many-problems")) == 1
    assert counted[-1] == ("error", "wrong-type")
