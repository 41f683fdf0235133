"""The codes of all diagnostics that the product can give, read from its source.

A code is the first argument of `error`, `warning` or `Diagnostic`; or of a name that stands for one of them;
or it is handed to a function that hands it on; or the second one of `Watched`, which kinds declare. Nothing
is run: a code counts that no test reaches.
"""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

SOURCE = Path(__file__).parent.parent.parent / "reconciler"
MAKERS = {"error", "warning", "Diagnostic"}
# The last one reads codes back that were given elsewhere.
OTHER_FORMS = ("diagnostics.py", "sandbox/", "reports/fragments.py")


def find_codes(root: Path = SOURCE) -> dict[str, str]:
    """Each code with a place that gives it, as `file:line`. Raises ValueError for one that is computed."""
    names = {file: file.relative_to(root).as_posix() for file in sorted(root.rglob("*.py"))}
    texts = {name: file.read_text(encoding="utf-8") for file, name in names.items()}
    trees = {
        name: ast.parse(text)
        for name, text in texts.items()
        if "reconciler.core.diagnostics import" in text and not name.startswith(OTHER_FORMS)
    }
    constants = _constants([*trees.values(), *_diagnostics(root)])
    found: dict[str, str] = {}
    for name, tree in trees.items():
        for line, code in _codes(tree, constants):
            if code is None:
                raise ValueError(f"{name}:{line}: the code of this diagnostic is not written down here")
            found.setdefault(code, f"{name}:{line}")
    return found


def _diagnostics(root: Path) -> Iterator[ast.Module]:
    if (root / "core" / "diagnostics.py").exists():
        yield ast.parse((root / "core" / "diagnostics.py").read_text(encoding="utf-8"))


def _constants(trees: list[ast.Module]) -> dict[str, str]:
    return {
        target.id: node.value.value
        for tree in trees
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name) and isinstance(node.value.value, str)
    }


def _codes(tree: ast.Module, constants: Mapping[str, str]) -> Iterator[tuple[int, str | None]]:
    assigned = _assigned(tree)
    stand_ins = {name for name, value in assigned if _names(value) & MAKERS}
    places = dict.fromkeys(MAKERS | stand_ins, 0) | {"Watched": 1}
    handed_on: set[ast.Call] = set()
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            parameters = [argument.arg for argument in function.args.args]
            for call in _calls(function, places):
                first = call.args[0] if call.args else None
                if isinstance(first, ast.Name) and first.id in parameters:
                    places[function.name] = parameters.index(first.id)
                    handed_on.add(call)
    for call in _calls(tree, places):
        if call in handed_on:
            continue
        assert isinstance(call.func, ast.Name)
        place = places[call.func.id]
        code = call.args[place] if place < len(call.args) else None
        if isinstance(code, ast.Constant):
            yield call.lineno, code.value if isinstance(code.value, str) else None
        elif isinstance(code, ast.Name) and code.id in constants:
            yield call.lineno, constants[code.id]
        elif isinstance(code, ast.Attribute) and code.attr == "code":
            continue  # what a kind declares
        else:
            # `report, code = (error, UNKNOWN_OUTCOME) if made else (warning, "state-incomplete")`
            values = [value for name, value in assigned if isinstance(code, ast.Name) and name == code.id]
            written = [text for value in values for text in _texts(value, constants)]
            yield from ((call.lineno, text) for text in (*written, *([] if written else [None])))


def _calls(tree: ast.AST, places: Mapping[str, int]) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in places:
            yield node


def _assigned(tree: ast.AST) -> list[tuple[str, ast.expr]]:
    """Local names with what they get; each of several names that are unpacked gets the whole."""
    return [
        (name.id, node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        for name in (target.elts if isinstance(target, ast.Tuple) else [target])
        if isinstance(name, ast.Name) and isinstance(node.value, ast.IfExp)
    ]


def _names(node: ast.AST) -> set[str]:
    """Names that stand by themselves, not as the function of a call."""
    called = {id(each.func) for each in ast.walk(node) if isinstance(each, ast.Call)}
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and id(each) not in called}


def _texts(node: ast.AST, constants: Mapping[str, str]) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.value
        elif isinstance(each, ast.Name) and each.id in constants:
            yield constants[each.id]
