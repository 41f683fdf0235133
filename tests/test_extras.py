"""What is installed with the package alone, and with each extra: it works, and what is missing is named.

Each set of packages is an environment of its own. Its packages are links to those of this environment, so
that nothing is fetched: the requirements in the metadata say which. A package that is imported but not
required is missing there, and found.
"""

import shutil
import subprocess
import venv
from collections.abc import Callable, Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path
from textwrap import dedent

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import reconciler
from reconciler.sandbox import serving

PACKAGE = "reconciler"
EXAMPLES = Path(__file__).parent.parent / "manifests" / "examples"
MOST_REQUIRED = 13

# What serves: its packages come with an extra. The core of the sandbox, and `provider check`, do not.
SANDBOX_FRONT = {"reconciler.sandbox.server"}
KIT = {"reconciler.providers.kit"}
# Of a backend whose driver is missing, one module or another cannot be imported: they count as one.
AGENTS = {"reconciler.agents.server"}
CONTROLLER = {f"reconciler.controller.{name}" for name in ("hooks", "metrics", "web")}
OBJECTS = {"reconciler.state.places.objects"}
POSTGRES = {"reconciler.state.places.postgres", "reconciler.drills.checks.cluster"}


def requirements(package: str, extra: str = "") -> list[Requirement]:
    """What `package` requires by itself, or what `extra` adds to that."""
    found = [Requirement(line) for line in distribution(package).requires or ()]

    def applies(each: Requirement, extra: str) -> bool:
        return each.marker is None or each.marker.evaluate({"extra": extra})

    return [each for each in found if applies(each, extra) and not (extra and applies(each, ""))]


def installed_with(package: str, *extras: str) -> dict[str, Distribution]:
    """`package` and all that comes with it, by name."""
    found: dict[str, Distribution] = {}
    ahead = [(package, extra) for extra in ("", *extras)]
    done = set(ahead)
    while ahead:
        name, extra = ahead.pop()
        found[name] = distribution(name)
        for each in requirements(name, extra):
            more = {(canonicalize_name(each.name), one) for one in ("", *each.extras)} - done
            ahead += more
            done |= more
    return found


class Installed:
    """An environment with the package, with what `extras` bring, and with the package `beside`."""

    def __init__(self, root: Path, *extras: str, beside: str = "") -> None:
        self.python = root / "bin" / "python"
        venv.create(root, symlinks=True)
        site = next(root.glob("lib/python*/site-packages"))
        packages = installed_with(PACKAGE, *extras) | (installed_with(beside) if beside else {})
        for name, package in packages.items():
            tops = {file.parts[0] for file in package.files or ()} - {"..", "__pycache__"}
            for top in tops:
                if not (name == PACKAGE and top.endswith(".pth")) and not (site / top).exists():
                    (site / top).symlink_to(Path(str(package.locate_file(top))))
        if not (site / PACKAGE).exists():  # an editable installation has no files
            (site / PACKAGE).symlink_to(Path(reconciler.__file__).parent)

    def run(self, *arguments: str, cwd: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
        ran = subprocess.run(
            [self.python, *arguments], cwd=cwd, capture_output=True, text=True, timeout=120, check=False
        )
        assert ran.returncode == code, ran.stdout + ran.stderr
        assert "Traceback" not in ran.stderr
        return ran

    def reconcile(self, *arguments: str, cwd: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
        return self.run("-m", PACKAGE, *arguments, cwd=cwd, code=code)


@pytest.fixture(scope="module")
def install(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Installed]:
    made: dict[tuple[str, ...], Installed] = {}

    def get(*extras: str) -> Installed:
        if extras not in made:
            made[extras] = Installed(tmp_path_factory.mktemp("environment"), *extras)
        return made[extras]

    return get


@pytest.fixture
def project(tmp_path: Path) -> Path:
    shutil.copytree(EXAMPLES, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.fixture
def platform() -> Iterator[str]:
    apps = [{"name": "shop"}, {"org_slug": "personal"}]
    with serving(clock="x600", profile="extended", apps=apps) as url:
        yield url


def test_the_package_alone_requires_little() -> None:
    assert len(requirements(PACKAGE)) <= MOST_REQUIRED


def test_all_is_every_extra() -> None:
    extras = set(distribution(PACKAGE).metadata.get_all("Provides-Extra") or ()) - {"all"}
    assert extras
    each_alone = {str(each.name) for extra in extras for each in requirements(PACKAGE, extra)}
    assert {each.name for each in requirements(PACKAGE, "all")} == each_alone


def test_plan_and_apply_need_no_extra(
    install: Callable[..., Installed], project: Path, platform: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECONCILE_BASE_URL", platform)
    monkeypatch.setenv("RECONCILE_TOKEN", "sandbox")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")  # where nobody listens
    plain = install()
    plain.reconcile("validate", ".", cwd=project)
    assert "to create" in plain.reconcile("plan", "volume.yaml", cwd=project).stdout
    plain.reconcile("state", "init", cwd=project)
    assert "Applied" in plain.reconcile("apply", "volume.yaml", "--auto-approve", cwd=project).stdout
    drift = plain.reconcile("drift", "volume.yaml", cwd=project)
    assert "No drift" in drift.stdout
    assert "trace" not in drift.stderr
    assert plain.reconcile("graph", "-o", "svg", ".", cwd=project).stdout.startswith("<svg")


@pytest.mark.parametrize(
    ("extras", "missing"),
    [
        ((), SANDBOX_FRONT | KIT | OBJECTS | POSTGRES | AGENTS | CONTROLLER),
        (("sandbox",), KIT | OBJECTS | POSTGRES | AGENTS | CONTROLLER),
        (("provider",), OBJECTS | AGENTS | CONTROLLER),  # it brings all else that serves
        (("objects",), SANDBOX_FRONT | KIT | POSTGRES | AGENTS | CONTROLLER),
        (("postgres",), SANDBOX_FRONT | KIT | OBJECTS | AGENTS | CONTROLLER),
        (("all",), set()),
    ],
    ids=["none", "sandbox", "provider", "objects", "postgres", "all"],
)
def test_only_what_serves_needs_an_extra(
    install: Callable[..., Installed], tmp_path: Path, extras: tuple[str, ...], missing: set[str]
) -> None:
    script = """
        import importlib, pathlib, reconciler
        package = pathlib.Path(reconciler.__file__).parent
        missing = []
        for file in sorted(package.rglob("*.py"), key=lambda file: file.with_suffix("").parts):
            name = ".".join(file.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__")
            if name == "reconciler.__main__" or any(name.startswith(f"{each}.") for each in missing):
                continue
            try:
                importlib.import_module(name)
            except ModuleNotFoundError:
                missing.append(name)
                print(name)
    """
    found = set(install(*extras).run("-c", dedent(script), cwd=tmp_path).stdout.split())
    for backend in OBJECTS | POSTGRES:
        found = {backend if name.startswith(f"{backend}.") else name for name in found}
    assert found - {"reconciler.sandbox.plugin"} == missing  # pytest is the tester's own


def test_the_emulated_platform_answers_in_process_without_an_extra(
    install: Callable[..., Installed], tmp_path: Path
) -> None:
    script = """
        from reconciler.sandbox.core import Sandbox
        from reconciler.sandbox.exchange import Request
        sandbox = Sandbox(apps=[{"name": "shop"}])
        token = {"authorization": "Bearer sandbox"}
        body = b'{"name": "data", "region": "ams", "size_gb": 1}'
        print(sandbox.handle(Request("POST", "/v1/apps/shop/volumes", headers=token, body=body)).status)
        sandbox.advance(60)
        print(sandbox.handle(Request("GET", "/v1/apps/shop/volumes", headers=token)).json()[0]["state"])
    """
    answered = install().run("-c", dedent(script), cwd=tmp_path).stdout.split()
    assert answered == ["200", "created"]


def test_the_sandbox_works_with_its_extra(install: Callable[..., Installed], project: Path) -> None:
    with_sandbox = install("sandbox")
    applied = with_sandbox.reconcile("apply", ".", "--sandbox", "--auto-approve", cwd=project)
    assert "Applied" in applied.stdout
    assert "No changes" in with_sandbox.reconcile("plan", ".", "--sandbox", cwd=project).stdout


@pytest.mark.parametrize(
    ("arguments", "what", "extra"),
    [
        (("plan", ".", "--sandbox"), "the embedded sandbox", "sandbox"),
        (("apply", ".", "--sandbox", "--auto-approve"), "the embedded sandbox", "sandbox"),
        (("sandbox",), "the emulated platform", "sandbox"),
        (("state", "list", "--state", "postgresql://db/state"), "a state in PostgreSQL", "postgres"),
        (("state", "list", "--state", "s3://bucket/prefix"), "a state in an object store", "objects"),
        (("drift", ".", "--report", "openmetrics=a.prom"), "the format openmetrics", "controller"),
        (("mcp",), "the server for agents", "mcp"),
        (("provider", "serve", "db", "--postgres-from", "env:DSN"), "the reference provider", "provider"),
        (("provider", "check", "http://127.0.0.1:9", "-o", "junit"), "`--output junit`", "provider"),
    ],
)
def test_a_missing_extra_is_named(
    install: Callable[..., Installed], project: Path, arguments: tuple[str, ...], what: str, extra: str
) -> None:
    told = install().reconcile(*arguments, cwd=project, code=1).stderr.splitlines()
    assert told[0].startswith(f"error: {what} needs packages that are not installed: ")
    assert told[1:] == [
        f"  = help: pip install 'reconciler[{extra}] @ WHEEL', the wheel that this program is from"
    ]


def test_the_fixture_for_pytest_names_the_missing_extra(tmp_path: Path) -> None:
    environment = Installed(tmp_path / "environment", beside="pytest")
    (tmp_path / "test_platform.py").write_text("def test_one(reconcile_sandbox): ...\n", encoding="utf-8")
    told = environment.run("-m", "pytest", "-q", "test_platform.py", cwd=tmp_path, code=1).stdout
    assert "pip install 'reconciler[sandbox] @ WHEEL'" in told
    assert "1 error" in told
