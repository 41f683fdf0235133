"""From a number to files: known manifests, mutated as trees, written in some style, mutated as bytes."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Literal

import yaml

from tests.reliability.fuzz.hostile import KEYS, PIECES, RAW_VALUES, SETTINGS, VALUES

ROOT = Path(__file__).parent.parent.parent.parent
LITERAL = "hunter2 open-Sesame!"  # a value that somebody wrote where it does not belong; no valid name

Suspect = Literal["manifests", "settings"]


@dataclass(frozen=True, slots=True)
class Files:
    """What a person has in the project: `suspect` says what the bytes are.

    `literal`: whether LITERAL stands in a Secret manifest or in the settings, and so must not be quoted.
    """

    suspect: Suspect
    contents: tuple[bytes, ...]
    literal: bool = False


class Pairs(list[list[Any]]):
    """A mapping that may name a key twice."""


class Raw(str):
    """Text that is written as it stands."""

    __slots__ = ()


def make_files(rng: Random) -> Files:
    """One case. The same state of `rng` gives the same bytes."""
    if rng.random() < 0.08:
        tree = _tree(rng.choice(SETTINGS))
        for _ in range(rng.randrange(4)):
            _mutate_tree(tree, rng)
        literal = rng.random() < 0.3
        if literal:
            name = rng.choice(("token", "token_from", "password"))
            rng.choice(_mappings(tree)).append([name, LITERAL])
        return Files("settings", (_mutated_bytes(_written(tree, rng), rng),), literal)
    contents: list[bytes] = []
    literal = False
    for _ in range(1 if rng.random() < 0.85 else 2):
        content, planted = _file(rng)
        contents.append(content)
        literal = literal or planted
    return Files("manifests", tuple(contents), literal)


def _file(rng: Random) -> tuple[bytes, bool]:
    if rng.random() < 0.12:
        return _mutated_bytes(rng.choice(_texts()), rng), False
    if rng.random() < 0.45:
        return _nearly_right(rng), False
    documents = []
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 5))):
        tree = _tree(rng.choice(_documents()))
        for _ in range(rng.choice((0, 0, 1, 1, 2, 3))):
            _mutate_tree(tree, rng)
        if rng.random() < 0.15:
            tree = _tree(rng.choice(_secrets()))
            as_key = _plant_literal(tree, rng)
            text = _written(tree, rng)
            return (text if as_key or rng.random() < 0.5 else _with_a_piece_beside(text, rng)), True
        documents.append(_written(tree, rng))
    text = b"---\n".join(documents)
    return (_mutated_bytes(text, rng) if rng.random() < 0.55 else text), False


def _nearly_right(rng: Random) -> bytes:
    """Documents of different names, with a value or two that are not as they were: most are planned."""
    documents: dict[str, bytes] = {}
    for _ in range(rng.choice((1, 2, 4))):
        document = rng.choice(_documents())
        tree = _tree(document)
        for _ in range(rng.choice((0, 0, 1, 1, 2))):
            found = _some_pair(tree, rng)
            if found is not None:
                rng.choice((_set_value, _graft, _drop, _swap))(tree, *found, rng)
        name = f"{document.get('kind')} {document.get('metadata')}"
        documents[name] = _written(tree, rng)
    return b"---\n".join(documents.values())


# --- what there is to mutate ---


@cache
def _texts() -> Sequence[bytes]:
    """All manifests of the repository, as bytes."""
    files = [*ROOT.glob("manifests/examples/*.yaml"), *ROOT.glob("tests/manifests/cases/*.yaml")]
    return [file.read_bytes() for file in sorted(files)] + list(_case_texts())


def _case_texts() -> Iterator[bytes]:
    for file in sorted(ROOT.glob("tests/kinds/*/*.yaml")):
        case = yaml.safe_load(file.read_text(encoding="utf-8"))
        if isinstance(case.get("manifests"), str):
            yield case["manifests"].encode()


@cache
def _documents() -> Sequence[Any]:
    """The documents of those that are YAML, as Python values."""
    found: list[Any] = []
    for text in _texts():
        if b"&" in text:
            continue  # an alias may lead back to its own anchor
        try:
            found += [each for each in yaml.safe_load_all(text) if isinstance(each, dict)]
        except yaml.YAMLError:
            continue
    return found


@cache
def _secrets() -> Sequence[Any]:
    return [document for document in _documents() if document.get("kind") == "Secret"]


def _tree(value: Any) -> Any:
    if isinstance(value, dict):
        return Pairs([str(key), _tree(item)] for key, item in value.items())
    if isinstance(value, list):
        return [_tree(item) for item in value]
    return value


# --- trees ---


def _mappings(tree: Any) -> list[Pairs]:
    found = [tree] if isinstance(tree, Pairs) else []
    children = (
        [pair[1] for pair in tree] if isinstance(tree, Pairs) else tree if isinstance(tree, list) else []
    )
    for child in children:
        found += _mappings(child)
    return found


def _some_pair(tree: Any, rng: Random) -> tuple[Pairs, list[Any]] | None:
    filled = [mapping for mapping in _mappings(tree) if mapping]
    if not filled:
        return None
    mapping = rng.choice(filled)
    return mapping, rng.choice(mapping)


def _hostile(rng: Random) -> Any:
    return Raw(rng.choice(RAW_VALUES)) if rng.random() < 0.4 else _tree(rng.choice(VALUES))


def _mutate_tree(tree: Any, rng: Random) -> None:
    found = _some_pair(tree, rng)
    if found is None:
        return
    mapping, pair = found
    rng.choice(_TREE_MUTATIONS)(tree, mapping, pair, rng)


def _set_value(tree: Any, mapping: Pairs, pair: list[Any], rng: Random) -> None:
    pair[1] = _hostile(rng)


def _drop(tree: Any, mapping: Pairs, pair: list[Any], rng: Random) -> None:
    mapping.remove(pair)


def _add(tree: Any, mapping: Pairs, pair: list[Any], rng: Random) -> None:
    mapping.insert(rng.randrange(len(mapping) + 1), [rng.choice(KEYS), _hostile(rng)])


def _rename(tree: Any, mapping: Pairs, pair: list[Any], rng: Random) -> None:
    name = str(pair[0])
    at = rng.randrange(len(name)) if name else 0
    pair[0] = rng.choice((rng.choice(KEYS), name.upper(), name[:at] + name[at + 1 :], f"{name}s", f"{name} "))


def _repeat(tree: Any, mapping: Pairs, pair: list[Any], rng: Random) -> None:
    mapping.append([pair[0], rng.choice((pair[1], _hostile(rng)))])


def _wrap(tree: Any, mapping: Pairs, pair: list[Any], rng: Random) -> None:
    for _ in range(rng.choice((1, 1, 2, 10, 70))):
        pair[1] = rng.choice(([pair[1]], Pairs([[rng.choice(KEYS), pair[1]]])))


def _graft(tree: Any, mapping: Pairs, pair: list[Any], rng: Random) -> None:
    other = _some_pair(_tree(rng.choice(_documents())), rng)
    if other is not None:
        pair[1] = other[1][1]


def _swap(tree: Any, mapping: Pairs, pair: list[Any], rng: Random) -> None:
    other = rng.choice(mapping)
    pair[1], other[1] = other[1], pair[1]


_TREE_MUTATIONS: tuple[Callable[[Any, Pairs, list[Any], Random], None], ...] = (
    *(_set_value, _set_value, _set_value, _drop, _add, _rename, _repeat, _wrap, _graft, _swap),
)


def _plant_literal(tree: Pairs, rng: Random) -> bool:
    """The value itself where its source should stand, as people do it. True: it became a key."""
    spec = Pairs([["value_from", Pairs([["env", "PASSWORD"]])]])
    at = rng.randrange(9)
    if at == 0:
        spec = Pairs([["value", LITERAL]])
    elif at == 1:
        spec = Pairs([["value_from", LITERAL]])
    elif at == 2:
        spec = Pairs([["value_from", Pairs([["env", LITERAL]])]])
    elif at == 3:
        spec = Pairs([["value_from", Pairs([[rng.choice(("password", "literal", "Env")), LITERAL]])]])
    elif at == 4:
        spec = Pairs(
            [["value_from", Pairs([["template", f"{LITERAL}${{{rng.choice(('', 'env:', 'x'))}}}"]])]]
        )
    elif at == 5:
        spec.append([rng.choice(("data", "stringData", "password", "valu")), Pairs([["PASSWORD", LITERAL]])])
    elif at == 6:
        spec = Pairs([["value_from", [LITERAL]]])
    elif at == 7:
        spec = Pairs([["value_from", Pairs([["env", "A"], [LITERAL, None]])]])
    else:
        tree.append([rng.choice(("value", "data", "stringData")), LITERAL])
    for pair in tree:
        if pair[0] == "spec":
            pair[1] = spec
    return at == 7


# --- writing ---


def _written(tree: Any, rng: Random) -> bytes:
    text = (
        _flow(tree, rng) + "\n" if rng.random() < 0.15 else _block(tree, 0, rng.choice((2, 2, 2, 4, 1)), rng)
    )
    return text.encode("utf-8", "surrogatepass")


def _block(node: Any, depth: int, step: int, rng: Random) -> str:
    indent = " " * (depth * step)
    if isinstance(node, Pairs) and node:
        lines = []
        for key, value in node:
            nested = isinstance(value, list) and bool(value) and rng.random() < 0.7 and depth < 20
            comment = rng.choice(("", "", "", "", "  # why"))
            if nested:
                lines.append(f"{indent}{_scalar(key, rng)}:{comment}\n{_block(value, depth + 1, step, rng)}")
            else:
                anchor = rng.choice(("", "", "", "", "", "&a "))
                lines.append(f"{indent}{_scalar(key, rng)}: {anchor}{_flow(value, rng)}{comment}\n")
        return "".join(lines)
    if isinstance(node, list) and node:
        return "".join(f"{indent}- {_flow(item, rng)}\n" for item in node)
    return f"{indent}{_flow(node, rng)}\n"


def _flow(node: Any, rng: Random) -> str:
    if isinstance(node, Pairs):
        return "{" + ", ".join(f"{_scalar(key, rng)}: {_flow(value, rng)}" for key, value in node) + "}"
    if isinstance(node, list):
        return "[" + ", ".join(_flow(item, rng) for item in node) + "]"
    return _scalar(node, rng)


def _scalar(value: Any, rng: Random) -> str:
    if isinstance(value, Raw):
        return str(value)
    if not isinstance(value, str):
        return yaml.safe_dump(value, default_flow_style=True).split("\n")[0]
    if value.isalnum() and value.isascii() and rng.random() < 0.9:
        return value
    if rng.random() < 0.5:
        return "'" + value.replace("'", "''") + "'"
    return _quoted(value)


def _quoted(value: str) -> str:
    import json

    return json.dumps(value, ensure_ascii=False)


# --- bytes ---


def _mutated_bytes(data: bytes, rng: Random) -> bytes:
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3, 8))):
        data = rng.choice(_BYTE_MUTATIONS)(data, rng)
    return data


def _with_a_piece_beside(data: bytes, rng: Random) -> bytes:
    """`data`, which holds LITERAL, with one piece dropped in between its last lines."""
    ends = [number for number, byte in enumerate(data) if byte == ord("\n")]
    where = rng.choice((len(data), *ends[-3:]))
    return data[:where] + rng.choice(PIECES) + data[where:]


def _insert(data: bytes, rng: Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(PIECES) + data[at:]


def _delete(data: bytes, rng: Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + data[at + rng.choice((1, 1, 2, 5, 20)) :]


def _flip(data: bytes, rng: Random) -> bytes:
    if not data:
        return data
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]


def _cut(data: bytes, rng: Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _move_line(data: bytes, rng: Random) -> bytes:
    lines = data.split(b"\n")
    line = lines.pop(rng.randrange(len(lines)))
    if rng.random() < 0.3:
        line = rng.choice((b" " + line, line.lstrip(), b"\t" + line, b"  " + line))
    lines.insert(rng.randrange(len(lines) + 1), line)
    return b"\n".join(lines)


def _double(data: bytes, rng: Random) -> bytes:
    if rng.random() < 0.02:
        return data * rng.choice((50, 300))
    lines = data.split(b"\n")
    at = rng.randrange(len(lines))
    return b"\n".join((*lines[: at + 1], *lines[at : at + rng.choice((1, 2, 5))], *lines[at + 1 :]))


def _ends(data: bytes, rng: Random) -> bytes:
    ends = rng.choice((b"\r\n", b"\r", b"\n\n", "\u2028".encode()))
    return data.replace(b"\n", ends)


def _encode(data: bytes, rng: Random) -> bytes:
    if rng.random() < 0.5:
        return b"\xef\xbb\xbf" + data
    text = data.decode("utf-8", "replace")
    return text.encode(rng.choice(("utf-16", "utf-16-le", "utf-32-be", "utf-7", "latin-1")), "replace")


def _bomb(data: bytes, rng: Random) -> bytes:
    """Aliases that multiply: as values, or as merge keys."""
    lines = ["b0: &b0 {k: x}" if rng.random() < 0.5 else "b0: &b0 [x, x]"]
    form = rng.choice(("b{0}: &b{0} [{1}]", "b{0}: &b{0} {{<<: [{1}]}}", "b{0}: &b{0} {{l: [{1}]}}"))
    lines += [
        form.format(level, ", ".join([f"*b{level - 1}"] * 9)) for level in range(1, rng.choice((3, 9, 30)))
    ]
    bomb = "\n".join(lines).encode() + b"\n"
    return data + b"---\n" + bomb if rng.random() < 0.5 else bomb + data


_BYTE_MUTATIONS: tuple[Callable[[bytes, Random], bytes], ...] = (
    *(_insert, _insert, _insert, _insert, _delete, _delete, _flip, _cut, _move_line, _move_line, _double),
    *(_double, _ends, _encode, _bomb),
)
