import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reconciler.services import signing
from tests.providers.vectors import COSTLY_ROUNDS, vectors
from tests.providers.vectors.judge import judge
from tests.providers.vectors.scene import CASES, COSTLY

ONE_OF_EACH = len(CASES)


def test_every_case_gets_the_verdict_that_the_documents_demand(tmp_path: Path) -> None:
    results = judge(vectors(seed=7, count=ONE_OF_EACH), tmp_path)
    wrong = {
        result.vector.case: (result.vector.expected, result.got) for result in results if any(result.wrong())
    }
    assert wrong == {}
    assert {result.vector.case for result in results} == CASES.keys()


def test_the_same_seed_makes_the_same_vectors() -> None:
    assert vectors(seed=3, count=900) == vectors(seed=3, count=900)
    assert vectors(seed=3, count=50) != vectors(seed=4, count=50)


def test_a_vector_can_be_written_down() -> None:
    lines = [vector.as_json() for vector in vectors(seed=7, count=ONE_OF_EACH)]
    assert all("\n" not in line for line in lines)


def test_costly_vectors_are_made_in_the_first_rounds_only() -> None:
    made = [vector.case for vector in vectors(seed=7, count=ONE_OF_EACH * (COSTLY_ROUNDS + 2))]
    assert {made.count(case) for case in COSTLY} == {COSTLY_ROUNDS}


def test_what_makes_the_vectors_imports_nothing_of_the_product() -> None:
    folder = Path(__file__).parent
    knowing = set()
    for file in folder.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            if any(name.split(".")[0] == "reconciler" for name in names):
                knowing.add(file.name)
    assert knowing == {"claims.py", "judge.py", "test_vectors.py"}


def _anything(*_: Any, **__: Any) -> Any:
    return None


def _first_only(check: Callable[..., None]) -> Callable[..., None]:
    return lambda signatures, *rest: check(signatures[:1], *rest)


def _split(check: Callable[..., None]) -> Callable[..., None]:
    return lambda signatures, *rest: check([signature.split(",")[0] for signature in signatures], *rest)


def _stripped(digest_of: Callable[..., bytes]) -> Callable[..., bytes]:
    return lambda text, encoding: digest_of(text.strip(), encoding)


def _small_letters(digest_of: Callable[..., bytes]) -> Callable[..., bytes]:
    def strict(text: str, encoding: str) -> bytes:
        if encoding == "hex" and text != text.lower():
            raise signing.NotAuthentic("capitals")
        return digest_of(text, encoding)

    return strict


@pytest.mark.parametrize(
    ("name", "defect", "case"),
    [
        ("check_signature", lambda _: _anything, "body: keys reordered after signing"),
        ("check_signature", _first_only, "signature: header twice, both right"),
        ("check_signature", _split, "signature: joined by a comma"),
        ("_digest_of", _stripped, "signature: hex with a line end"),
        ("_digest_of", _small_letters, "signature: hex in capitals"),
        ("_same_url", lambda _: lambda *_: True, "address: moved to other host"),
        ("_same_url", lambda _: lambda signed, got: signed == got, "address: default port spelt out, POST"),
        ("_check_time", lambda _: _anything, "time: clock +301 s, GET"),
        ("TOLERANCE_S", lambda _: 299, "time: clock +300 s, GET"),
        ("TOLERANCE_S", lambda _: 301, "time: clock -301 s, webhook"),
        ("MAX_SIGNED", lambda limit: limit - 1, "body: exactly 1 MiB"),
        ("MAX_SIGNED", lambda limit: limit + 1, "query: 1 MiB + 1"),
        ("_constant", lambda _: _anything, "body: NaN in a field"),
        ("_object", lambda _: dict, "body: `url` twice"),
    ],
)
def test_a_planted_defect_is_found(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    defect: Callable[[Any], Any],
    case: str,
) -> None:
    monkeypatch.setattr(signing, name, defect(getattr(signing, name)))
    made = [vector for vector in vectors(seed=7, count=ONE_OF_EACH) if vector.how == "in one process"]
    assert case in {result.vector.case for result in judge(made, tmp_path) if any(result.wrong())}
