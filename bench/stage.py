"""Where programs are measured: a folder, the revision of the reconciler, and what was prepared once."""

import json
import ssl
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeVar
from urllib.request import urlopen

from bench.platform import Link
from bench.processes import Cost, run, serving
from bench.worlds.world import World, app_name
from tests.certificates import certified

REPOSITORY = Path(__file__).parents[1]
RECONCILE = str(Path(sys.executable).with_name("reconcile"))

T = TypeVar("T")

_NEAR = Link()


class Program(ABC):
    """What is measured, such as a plan of one world. Its text is what the table calls it."""

    ours: ClassVar = True  # and not a peer's

    @abstractmethod
    def opened(self, stage: "Stage") -> Callable[[], Cost]:
        """What runs it once. All that is not to be measured is prepared now, or by the function itself."""


@dataclass(frozen=True)
class Project:
    """A folder with manifests, and the variables with which its commands run: the platform's address, say."""

    root: Path
    variables: Mapping[str, str] = field(default_factory=dict)

    def run(self, *words: str, expect: str = "") -> Cost:
        """`reconcile WORDS`."""
        return run([RECONCILE, *words], self.root, self.variables, expect=expect)

    @property
    def platform(self) -> str:
        return self.variables["RECONCILE_BASE_URL"]

    def calls(self) -> int:
        """How many HTTP calls the prebuilt platform has answered since it was last asked."""
        tls = ssl.create_default_context(cafile=self.variables.get("SSL_CERT_FILE"))
        with urlopen(f"{self.platform}/calls", context=tls) as answer:
            return int(answer.read())


class Stage:
    """`source`: where the reconciler is that runs here; the folder that holds the package."""

    def __init__(self, folder: Path, stack: ExitStack, source: Path = REPOSITORY) -> None:
        folder.mkdir(exist_ok=True)
        self._folder, self._stack = folder, stack
        self._variables = {"PYTHONPATH": str(source)}
        self._prepared: dict[Hashable, Any] = {}
        self._folders = 0

    def folder(self) -> Path:
        """A new one."""
        self._folders += 1
        made = self._folder / f"world-{self._folders}"
        made.mkdir()
        return made

    def once(self, what: Hashable, prepare: Callable[[], T]) -> T:
        """The same for the same `what`."""
        if what not in self._prepared:
            self._prepared[what] = prepare()
        found: T = self._prepared[what]
        return found

    def enter(self, context: AbstractContextManager[T]) -> T:
        """Open until the end of all that is measured."""
        return self._stack.enter_context(context)

    def project(self, root: Path, platform: str, token: str = "bench", **more: str) -> Project:
        about = {"RECONCILE_BASE_URL": platform, "RECONCILE_TOKEN": token}
        return Project(root, {**self._variables, **about, **more})

    def recorded(self, world: World, link: Link = _NEAR) -> Project:
        """A project with the world's state, and a platform of prebuilt answers at the other end of `link`."""

        def prepare() -> Project:
            trusted = {"SSL_CERT_FILE": f"{link.certificate}/authority.pem"} if link.certificate else {}
            return self.project(self.written(world), self.enter(self.platform(world, link)), **trusted)

        return self.once((world, link), prepare)

    def certificate(self) -> str:
        """The folder of the platform's certificate, of its key, and of the authority that signed it."""
        folder = self._folder / "tls"
        self.once(folder, lambda: certified("localhost", folder))
        return str(folder)

    def written(self, world: World) -> Path:
        """A new folder with the world's manifests and its state."""
        root = self.folder()
        # In a process of its own: the most that a parent ever held counts as its children's peak memory.
        self.python("bench.worlds.records", world.dumps(), str(root))
        return root

    def platform(self, world: World, link: Link = _NEAR) -> AbstractContextManager[str]:
        """The address of one that has prebuilt answers."""
        command = [sys.executable, "-m", "bench.platform", world.dumps(), link.dumps()]
        return serving(command, self._folder, self._variables)

    def sandbox(self, root: Path, apps: int) -> AbstractContextManager[str]:
        """The address of an empty sandbox with as many apps, whose files are in `root`."""
        seed = {"apps": [{"name": app_name(app)} for app in range(apps)]}
        (root / "seed.json").write_text(json.dumps(seed))
        command = [RECONCILE, "sandbox", "--db", "sandbox.db", "--seed", "seed.json"]
        return serving(command, root, self._variables)

    def python(self, module: str, *arguments: str) -> Cost:
        return run([sys.executable, "-m", module, *arguments], self._folder, self._variables)
