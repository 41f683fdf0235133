"""The engine of expressions: the Common Expression Language, by cel-expr-python. No other module imports it.

An expression is compiled twice. First with the exact types of its variables, where a field that may be
unset is a wrapper, and the calls of a change are messages: that finds unknown names, unknown fields of calls
and comparisons of different types. Then with types that take Python's values, to be evaluated.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

from reconciler.core.extras import extra_missing

# Types of variables. With `?`, the value may be null, which an expression can ask for.
EXACT = {
    "bool": "google.protobuf.BoolValue",
    "int": "google.protobuf.Int64Value",
    "number": "google.protobuf.DoubleValue",
    "text": "google.protobuf.StringValue",
}
_CALL = "reconciler.Call"
_MISTAKE = re.compile(r"ERROR: <input>:(\d+):(\d+): (.+)")
_UNKNOWN = re.compile(r'No value with name "([^"]+)"')
_OVERLOAD = re.compile(r"No matching overloads found : (.+)")


class Mistake(NamedTuple):
    """A mistake in an expression, at its `line` and `column`, both from 1."""

    line: int
    column: int
    message: str


class Mistaken(Exception):
    """An expression that cannot be compiled."""

    def __init__(self, mistakes: list[Mistake]) -> None:
        super().__init__(mistakes[0].message)
        self.mistakes = mistakes


class Undecided(NamedTuple):
    """An expression without a value, and why."""

    why: str


class Expression:
    """A condition over variables: true, false, or undecided."""

    def __init__(self, text: str, names: tuple[str, ...], program: Any, mistake: str = "") -> None:
        self.text = text
        self._mistake = mistake  # "" for an expression that was compiled
        self.names = names  # of the variables that it uses
        self.of_plan = not any(name.startswith(("change.", "resource.")) for name in names)
        self._program = program

    def __call__(self, value_of: Callable[[str], Any]) -> bool | Undecided:
        """The value. `value_of`: of a variable; raises KeyError where nobody knows it."""
        if self._mistake:
            return Undecided(f"its expression has a mistake: {self._mistake}")
        known = {}
        for name in self.names:
            try:
                known[name] = value_of(name)
            except KeyError:
                continue
        answer = self._program.eval(data=known)
        found = answer.value()
        return found if isinstance(found, bool) else Undecided(_reason(str(found), known))


def _reason(said: str, known: Mapping[str, Any]) -> str:
    """The engine's error in words."""
    if missing := _UNKNOWN.search(said):
        return f"`{missing[1]}` is not known"
    nulls = [f"`{name}`" for name, value in known.items() if value is None]
    if _OVERLOAD.search(said) and nulls:
        return f"{' and '.join(nulls)} {'is' if len(nulls) == 1 else 'are'} null: compare with `null` first"
    return said.partition(": ")[2].lower() or said.lower()


def compiled(text: str, types: Mapping[str, str]) -> Expression:
    """The condition `text` over variables of these `types`. Raises Mistaken, and ExtraMissing."""
    return _compiled(text, tuple(sorted(types.items())))


def remembered(text: str, types: Mapping[str, str]) -> Expression:
    """As `compiled`; always undecided where it has a mistake, as one of another version may have here."""
    try:
        return compiled(text, types)
    except Mistaken as mistaken:
        return Expression(text, (), None, str(mistaken))


@cache
def _compiled(text: str, types: tuple[tuple[str, str], ...]) -> Expression:
    exact, plain = _environments(types)
    names = tuple(name for name, _ in types if re.search(rf"(?<![\w.]){re.escape(name)}(?![\w])", text))
    if asked := re.search(r"\bhas\(\s*((?:change|resource|plan)\.(?!labels\b)[\w.]+)", text):
        line, column = _line_and_column(text, asked.start())
        raise Mistaken([Mistake(line, column, f"has() is for keys of maps: compare `{asked[1]}` with null")])
    checked = _compile(exact, text)
    if checked.return_type().name() not in ("BOOL", "bool"):
        raise Mistaken([Mistake(1, 1, "a condition is true or false, and this is neither")])
    return Expression(text, names, _compile(plain, text))


def _compile(environment: Any, text: str) -> Any:
    try:
        return environment.compile(text)
    except RuntimeError as failure:
        found = [
            Mistake(int(line), int(column), message.partition(" (in container")[0])
            for line, column, message in _MISTAKE.findall(str(failure))
        ]
        raise Mistaken(found or [Mistake(1, 1, str(failure))]) from None


def _line_and_column(text: str, at: int) -> tuple[int, int]:
    before = text[:at]
    return before.count("\n") + 1, at - (before.rfind("\n") + 1) + 1


@cache
def _environments(types: tuple[tuple[str, str], ...]) -> tuple[Any, Any]:
    """The environment that checks, and the one that evaluates."""
    try:
        from cel_expr_python import cel  # type: ignore[import-untyped]  # it says no types
        from google.protobuf import descriptor_pb2, descriptor_pool, struct_pb2
    except ImportError as missing:
        why = f"guardrails need {missing.name or 'a library'}, which is not installed here"
        raise extra_missing("policy", why) from None
    kind = cel.Type
    simple = {
        "bool": kind.BOOL,
        "int": kind.INT,
        "number": kind.DOUBLE,
        "text": kind.STRING,
        "time": kind.TIMESTAMP,
        "texts": kind.List(kind.STRING),
        "map": kind.Map(kind.STRING, kind.STRING),
    }
    field = descriptor_pb2.FieldDescriptorProto
    call = descriptor_pb2.FileDescriptorProto(
        name="reconciler.proto",
        package="reconciler",
        syntax="proto3",
        dependency=["google/protobuf/struct.proto"],
    )
    message = call.message_type.add(name="Call")
    for number, name in enumerate(("method", "path"), start=1):
        message.field.add(name=name, number=number, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
    message.field.add(
        name="body",
        number=3,
        type=field.TYPE_MESSAGE,
        type_name=".google.protobuf.Struct",
        label=field.LABEL_OPTIONAL,
    )
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(struct_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(call.SerializeToString())

    def exact(type: str) -> Any:
        if type == "calls":
            return kind.List(kind(_CALL))
        return (
            kind(EXACT[type[:-1]]) if type.endswith("?") and type[:-1] in EXACT else simple[type.rstrip("?")]
        )

    def plain(type: str) -> Any:
        if type == "calls":
            return kind.List(kind.Map(kind.STRING, kind.DYN))
        return kind.DYN if type.endswith("?") else simple[type]

    return (
        cel.NewEnv(descriptor_pool=pool, variables={name: exact(type) for name, type in types}),
        cel.NewEnv(variables={name: plain(type) for name, type in types}),
    )
