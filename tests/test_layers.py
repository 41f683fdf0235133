"""Imports go one way, and each driver has one home. Source: DESIGN, section 4.

The checker reads the source and imports nothing, so that an import inside a function counts too.
"""

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from textwrap import dedent

import pytest

from reconciler.core.garbage import collector_paused
from reconciler.kinds import find_kinds

PACKAGE = "reconciler"
SOURCE = Path(__file__).parent.parent / PACKAGE

# From the bottom up, by the longest name that fits. A module imports those of lower levels, and of its own
# level only those of the same name.
CORE = frozenset({"core", "services.http1", "services.transport", "services.signing"})
LAYERS = (
    {"services.machines.wire", "explanations"},
    {"kinds"},
    {"policies"},
    {"moves", "rehearsal.results"},
    {"planning", "manifests"},
    {"guardrails"},
    {"state", "secrets", "approvals.rules"},
    {"services", "drills.checks"},
    {"project.sections"},
    {"execution", "reports", "project.embedded", "project.files"},
    {"drills"},
    {"project.settings"},
    {"project.project"},
    {"approvals"},
    {"project"},
    {"importing", "drift", "rehearsal", "notify", "hosts", "starting"},
    {"doctor", "inventory"},
    {"evidence"},
    {"api"},
    {"demo"},
    {"agents"},
    {"controller"},
    {"cli"},
    {"__main__"},
)
LEVELS = {name: level for level, names in enumerate((CORE, *LAYERS)) for name in names}
WIRE = LAYERS[0] - {"explanations"}

# Houses of their own beside the layers: each knows the core and what is spoken, and few open their doors.
SANDBOX, KIT, CHECK = "sandbox", "providers.kit", "providers.check"
HOUSES = {SANDBOX, KIT, CHECK}
DOORS = {
    "cli": HOUSES,
    "project.embedded": {SANDBOX},
    "rehearsal": {SANDBOX},
    "evidence": {SANDBOX},
    "demo": {SANDBOX},
}

HOMES = {
    "httpx": {"services.transport", "services.http1"},
    "httptools": {"services.http1"},
    "yaml": {"manifests"},
    "sqlite3": {"state.places", KIT, SANDBOX},
    "psycopg": {"state.places", KIT, "drills.checks.cluster"},  # drills look into what was restored
    "obstore": {"state.places"},
    "pyrage": {"secrets"},
    "cel_expr_python": {"guardrails"},
    "cronsim": {"core.cron"},
    "cryptography": {"state"},
    "google": {"guardrails"},
    "click": {"cli"},
    "opentelemetry": {"core.tracing"},
    "mcp": {"agents"},
    "rich": {"cli"},
    "prometheus_client": {"controller"},
    "starlette": {KIT, SANDBOX, "controller"},
    "uvicorn": {KIT, SANDBOX, "controller"},
    "authlib": {KIT},
    "cloudevents": {KIT, SANDBOX},
    "junitparser": {CHECK},
    "jinja2": {KIT, SANDBOX, "controller", "reports"},
}
PRINTS = {"cli"}
# What belongs to the process, not to a run, comes into the other layers as a value: runs share a process.
FRONT_DOORS = {"cli", "api", *HOUSES}
OF_THE_PROCESS = {"sys.stdin", "os.environ", "os.environb", "os.getenv"}


_LOOKED_AT = (ast.Import, ast.ImportFrom, ast.Name, ast.Attribute, ast.Constant)
Nodes = tuple[ast.Import | ast.ImportFrom | ast.Name | ast.Attribute | ast.Constant, ...]


def breaches(root: Path) -> list[str]:
    """Every breach in the package at `root`, as `file:line: what`."""
    found = []
    for file in sorted(root.rglob("*.py")):
        relative = file.relative_to(root)
        if relative.parts == ("__init__.py",):
            continue
        owner = _home(".".join(relative.with_suffix("").parts))
        nodes = _nodes(file)
        problems = [
            *_imports(nodes, relative, owner),
            *_printing(nodes, owner),
            *_process(nodes, relative, owner),
        ]
        found += [f"{relative}:{line}: {problem}" for line, problem in sorted(problems)]
    return found


@cache
def _nodes(file: Path) -> Nodes:
    """Return the nodes that a rule looks at: a file is parsed and walked once for all rules."""
    with collector_paused():
        tree = ast.parse(file.read_text(encoding="utf-8"))
    return tuple(node for node in ast.walk(tree) if isinstance(node, _LOOKED_AT))


def _imports(nodes: Nodes, file: Path, owner: str) -> Iterator[tuple[int, str]]:
    for line, name in _imported(nodes, file):
        library, _, rest = name.partition(".")
        if library != PACKAGE:
            place = ".".join(file.with_suffix("").parts)
            homes = HOMES.get(library, {owner})
            if not any(f"{place}.".startswith(f"{home}.") for home in homes):
                yield line, f"{owner} imports {library}"
        elif rest and not _allowed(owner, _home(rest)):
            yield line, f"{owner} imports {_home(rest)}"


@cache
def _home(module: str) -> str:
    """The longest name of a level that `module` is, or is in; its first part where none is."""
    names = (*LEVELS, *HOUSES)
    fitting = [name for name in names if f"{module}.".startswith(f"{name}.")]
    return max(fitting, key=len, default=module.partition(".")[0])


def _imported(nodes: Nodes, file: Path) -> Iterator[tuple[int, str]]:
    """Full names of all that is imported; a relative import is resolved against `file`."""
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = (PACKAGE, *file.parts[:-1])
                base = ".".join((*above[: len(above) - node.level + 1], *filter(None, [base])))
            for alias in node.names:
                yield node.lineno, f"{base}.{alias.name}"


def _allowed(owner: str, imported: str) -> bool:
    if owner == "core":
        return imported == "core"
    if owner == imported or imported in CORE:
        return True
    if owner in HOUSES:
        return imported in WIRE
    if imported in HOUSES:
        return imported in DOORS.get(owner, set())
    if owner not in LEVELS or imported not in LEVELS:
        return False  # a new module has to be given its place above
    return LEVELS[imported] < LEVELS[owner]


def circles(root: Path) -> list[set[str]]:
    """Modules of the package at `root` that import each other, in whatever way, as sets."""
    files = {_module(file.relative_to(root)): file for file in root.rglob("*.py")}
    imports = {}
    for module, file in files.items():
        names = [name for _, name in _imported(_nodes(file), file.relative_to(root))]
        imports[module] = {_known(name, files) for name in names} - {"", module}
    reached = {module: _reached(module, imports) for module in imports}
    found = {
        frozenset(other for other in reached[module] if module in reached[other])
        for module in imports
        if module in reached[module]
    }
    return sorted(map(set, found), key=sorted)


def _module(file: Path) -> str:
    parts = (PACKAGE, *file.with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _known(name: str, modules: Mapping[str, Path]) -> str:
    """The module that `name` is, or that holds it; "" for one of another package."""
    while name and name not in modules:
        name = name.rpartition(".")[0]
    return name


def _reached(module: str, imports: Mapping[str, set[str]]) -> set[str]:
    """All that `module` imports, and what that imports in turn."""
    found: set[str] = set()
    ahead = set(imports[module])
    while ahead:
        found |= ahead
        ahead = set().union(*(imports[each] for each in ahead)) - found
    return found


def _printing(nodes: Nodes, owner: str) -> Iterator[tuple[int, str]]:
    if owner in PRINTS:
        return
    for node in nodes:
        if isinstance(node, ast.Name) and node.id == "print":
            yield node.lineno, f"{owner} prints"
        if (name := _dotted(node)) in ("sys.stdout", "sys.stderr"):
            yield node.lineno, f"{owner} uses {name}"


def _dotted(node: ast.AST) -> str:
    """Return `module.name` for an attribute of a plain name, "" for all else."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return ""


def _process(nodes: Nodes, file: Path, owner: str) -> Iterator[tuple[int, str]]:
    if owner in FRONT_DOORS:
        return
    used = [(node.lineno, _dotted(node)) for node in nodes if isinstance(node, ast.Attribute)]
    for line, name in (*used, *_imported(nodes, file)):
        if name in OF_THE_PROCESS:
            yield line, f"{owner} uses {name}"


def test_imports_go_one_way_and_drivers_stay_at_home() -> None:
    assert breaches(SOURCE) == []


def test_no_modules_import_each_other() -> None:
    """Not in functions and not for types alone: who reads one would have to read the other first."""
    assert circles(SOURCE) == []


def test_a_planted_circle_is_found(tmp_path: Path) -> None:
    _plant(tmp_path, "a/b.py", "from reconciler.a.c import d\nimport reconciler.e")
    _plant(tmp_path, "a/c.py", "def late():\n    from reconciler.f import g")
    _plant(tmp_path, "f.py", "from reconciler.a import b")
    _plant(tmp_path, "e.py", "")
    _plant(tmp_path, "a/__init__.py", "")
    assert circles(tmp_path) == [{"reconciler.a.b", "reconciler.a.c", "reconciler.f"}]


@pytest.mark.parametrize(
    ("file", "source", "problem"),
    [
        (
            "kinds/volume/kind.py",
            "from reconciler.services.client import Client",
            "1: kinds imports services",
        ),
        ("planning/match.py", "import reconciler.manifests.load", "1: planning imports manifests"),
        ("moves/detect.py", "from reconciler.manifests.load import load", "1: moves imports manifests"),
        (
            "core/model.py",
            "from reconciler.services.machines.wire import volume",
            "1: core imports services.machines.wire",
        ),
        ("core/steps.py", "import reconciler.services.transport", "1: core imports services.transport"),
        ("observe.py", "from reconciler import project", "1: observe imports project"),
        ("state/places/sqlite/store.py", "from ....execution import executor", "1: state imports execution"),
        ("sandbox/core.py", "from reconciler.kinds.base import Kind", "1: sandbox imports kinds"),
        ("project/plan.py", "from reconciler.sandbox import serve", "1: project imports sandbox"),
        ("cli/new.py", "import reconciler.unplaced", "1: cli imports unplaced"),
        (
            "unplaced.py",
            "import reconciler.services.machines.wire",
            "1: unplaced imports services.machines.wire",
        ),
        ("services/client.py", "import httpx", "1: services imports httpx"),
        ("cli/state.py", "from sqlite3 import connect", "1: cli imports sqlite3"),
        ("project/settings.py", "import yaml", "1: project.settings imports yaml"),
        ("cli/secret.py", "import pyrage", "1: cli imports pyrage"),
        ("reports/formats/text.py", "import click", "1: reports imports click"),
        ("cli/serve.py", "import uvicorn.config", "1: cli imports uvicorn"),
        ("reports/formats/text.py", "print('done')", "1: reports prints"),
        ("execution/executor.py", "import sys\nsys.stderr.write('no')", "2: execution uses sys.stderr"),
        ("project/desired.py", "import sys\nsys.stdin.buffer.read()", "2: project uses sys.stdin"),
        ("project/open.py", "import os\nTOKEN = os.environ['T']", "2: project uses os.environ"),
        ("secrets/sources.py", "from os import environ", "1: secrets uses os.environ"),
        ("api.py", "import click", "1: api imports click"),
        ("kinds/secret.py", "def late():\n    import httpx", "2: kinds imports httpx"),
        (
            "services/signing.py",
            """
            from typing import TYPE_CHECKING
            if TYPE_CHECKING:
                from reconciler.kinds import base
            """,
            "4: services.signing imports kinds",
        ),
    ],
)
def test_a_planted_breach_is_found(tmp_path: Path, file: str, source: str, problem: str) -> None:
    _plant(tmp_path, file, dedent(source))
    assert breaches(tmp_path) == [f"{file}:{problem}"]


def test_what_the_design_allows_is_no_breach(tmp_path: Path) -> None:
    _plant(tmp_path, "__main__.py", "from reconciler.cli.main import main")
    _plant(tmp_path, "cli/main.py", "import click\nimport rich.console\nprint('from the cli')")
    _plant(
        tmp_path,
        "cli/sandbox.py",
        "from reconciler.sandbox import serve\nfrom reconciler.core.model import X",
    )
    _plant(
        tmp_path,
        "sandbox/core.py",
        "import sqlite3\nimport starlette\nfrom reconciler.services.machines.wire import base",
    )
    _plant(tmp_path, "execution/a.py", "from .b import c\nfrom reconciler.planning import match")
    _plant(tmp_path, "services/transport.py", "import httpx\nfrom reconciler.core.errors import Lost")
    assert breaches(tmp_path) == []


# What acts on all kinds alike. A feature may know the policy that it is about, never a kind.
KINDLESS = ("planning", "execution", "state", "approvals", "project", "moves", "importing", "drift")


def kinds_named(root: Path, kinds: Mapping[str, str]) -> list[str]:
    """Where modules of `KINDLESS` import a kind or have its name as a text, as `file:line: what`.

    `kinds`: the modules of kinds, by name. What a message says to a person may hold a name.
    """
    found = []
    for layer in KINDLESS:
        for file in sorted((root / layer).rglob("*.py")):
            relative = file.relative_to(root)
            nodes = _nodes(file)
            for line, name in _imported(nodes, relative):
                module = next((each for each in kinds.values() if f"{name}.".startswith(f"{each}.")), None)
                if module is not None:
                    found.append(f"{relative}:{line}: {layer} imports {module}")
            texts = [node for node in nodes if isinstance(node, ast.Constant)]
            found += [
                f"{relative}:{at.lineno}: {layer} names {at.value!s}" for at in texts if at.value in kinds
            ]
    return found


def _modules_of_kinds() -> dict[str, str]:
    """A kind's folder, where it has one."""
    modules = {name: type(kind).__module__ for name, kind in find_kinds().items()}
    return {name: module.removesuffix(".kind") for name, module in modules.items()}


def test_what_acts_on_all_kinds_names_none() -> None:
    kinds = _modules_of_kinds()
    assert {"Volume": "reconciler.kinds.volume", "Secret": "reconciler.kinds.secret"}.items() <= kinds.items()
    assert kinds_named(SOURCE, kinds) == []


@pytest.mark.parametrize(
    ("file", "source", "problem"),
    [
        ("planning/match.py", "if kind == 'Volume':\n    pass", "1: planning names Volume"),
        ("project/show.py", "KIND = {'sets': 'Secret'}", "1: project names Secret"),
        (
            "drift/find.py",
            "def late():\n    from reconciler.kinds.secret.kind import NAME",
            "2: drift imports reconciler.kinds.secret",
        ),
        (
            "execution/for_each.py",
            "from reconciler.kinds.volume.snapshots import why_due",
            "1: execution imports reconciler.kinds.volume",
        ),
        (
            "importing/files.py",
            "from ..kinds import machine",
            "1: importing imports reconciler.kinds.machine",
        ),
    ],
)
def test_a_planted_name_of_a_kind_is_found(tmp_path: Path, file: str, source: str, problem: str) -> None:
    _plant(tmp_path, file, source)
    assert kinds_named(tmp_path, _modules_of_kinds()) == [f"{file}:{problem}"]


def test_roles_and_what_a_message_says_are_no_names_of_a_kind(tmp_path: Path) -> None:
    _plant(
        tmp_path, "drift/find.py", "from reconciler.kinds.roles import SendsSecret\nsaid = 'as Volume/a/b'"
    )
    assert kinds_named(tmp_path, _modules_of_kinds()) == []


def _plant(root: Path, file: str, source: str) -> None:
    path = root / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source, encoding="utf-8")
