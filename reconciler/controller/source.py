"""A clone of the project's repository for the controller alone, at the newest commit that it may use.

A person's working tree may hold anything. This clone holds what was merged: a commit that does not follow the
one before it is refused until a person accepts it, and with `verify: signed` one that no signer of the
project signed.
"""

import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import anyio
from anyio import to_thread

from reconciler.approvals.in_force import authority_of
from reconciler.core.advice import command
from reconciler.core.diagnostics import error
from reconciler.core.errors import ReconcilerError, Refused
from reconciler.manifests.revisions.git import TIMEOUT_S, find_repository
from reconciler.project.settings import ProjectSettings, find_settings

_ACCEPTED = "refs/reconciler/accepted"  # the commit that is used
_TIP = "refs/reconciler/tip"  # the one that was fetched last
_KEPT_S = 86400.0  # how long the files of a commit stay, at least
_SAFE = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "protocol.ext.allow=never",
    "gpg.format=ssh",
    "gpg.program=false",  # only SSH signatures count
    "gpg.x509.program=false",
)


class Source:
    """The clone in `folder`, of the repository that `config` is in. Raises ReconcilerError outside of one."""

    def __init__(self, config: ProjectSettings, folder: Path) -> None:
        section = config.settings.controller.source
        assert section is not None
        remote, _, self._branch = section.ref.partition("/")
        here = find_repository(config.root, config.variables)
        self._config, self._folder, self._signed = config, folder, section.verify == "signed"
        self._url = here.text("config", "--get", f"remote.{remote}.url")
        if is_path(self._url):
            self._url = str(Path(here.text("rev-parse", "--show-toplevel"), self._url))
        self._prefix, self._lock = here.prefix, anyio.Lock()
        ours = config.own_variables | config.secret_variables
        self._env = {name: value for name, value in config.variables.items() if name not in ours} | {
            "GIT_TERMINAL_PROMPT": "0",
            "LC_ALL": "C",
        }
        for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
            self._env.pop(name, None)

    async def root(self) -> Path:
        """The project's folder at the commit that is used. Raises ReconcilerError while there is none."""
        if commit := await self._commit():
            return self._tree(commit) / self._prefix
        raise ReconcilerError(f"no commit of {self._branch} may be used yet", help="the log says why")

    async def fetch(self, accepted: str = "") -> str:
        """Get the newest commit of the branch, use it from now on, and return it.

        `accepted`: the one that a person lets pass although it does not follow the one before it. Raises
        ReconcilerError where the remote cannot be asked, and Refused for a commit that may not be used: then
        the one before it stays in use.
        """
        async with self._lock:
            try:
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                with (self._folder / "lock").open("w") as file:
                    # Two controllers in one folder: neither may remove the files that the other one reads.
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return await self._fetch(accepted)
            except BlockingIOError:
                raise ReconcilerError(f"another controller is fetching into {self._folder}") from None
            except OSError as failure:
                raise ReconcilerError(f"cannot write in {self._folder}: {failure.strerror}") from failure

    async def _fetch(self, accepted: str) -> str:
        if not self._is_made:
            await self._git("init", "--quiet")
        branch = f"+refs/heads/{self._branch}:{_TIP}"
        await self._git("fetch", "--quiet", "--no-tags", "--no-recurse-submodules", self._url, branch)
        tip, before = await self._git("rev-parse", _TIP), await self._commit()
        if tip == before:
            return tip
        if before and tip != accepted and not await self._follows(tip, before):
            raise _rewritten(self._branch, before, tip)
        await self._check_out(tip)
        if self._signed:
            await self._verify(tip, before)
        await self._git("update-ref", _ACCEPTED, tip)
        for tree in [*self._tree("").iterdir()]:
            is_old = time.time() - tree.stat().st_mtime > _KEPT_S  # else a run may read it
            if tree.name not in (tip, before) and is_old:
                await self._remove(tree.name)
        return tip

    @property
    def _is_made(self) -> bool:
        return (self._folder / ".git").exists()

    async def _commit(self) -> str:
        """The commit that is used; "" before the first one."""
        return await self._git("for-each-ref", "--format=%(objectname)", _ACCEPTED) if self._is_made else ""

    def _tree(self, commit: str) -> Path:
        """Each commit has files of its own: those that a run reads do not change under it."""
        return self._folder / "commits" / commit

    async def _check_out(self, commit: str) -> None:
        await self._remove(commit)  # it may have been cut off
        await self._git("worktree", "add", "--quiet", "--detach", str(self._tree(commit)), commit)

    async def _remove(self, commit: str) -> None:
        shutil.rmtree(self._tree(commit), ignore_errors=True)
        await self._git("worktree", "prune")

    async def _follows(self, commit: str, before: str) -> bool:
        try:
            await self._git("merge-base", "--is-ancestor", before, commit)
        except ReconcilerError:
            return False
        return True

    async def _verify(self, commit: str, before: str) -> None:
        """Raises Refused unless the signers of this commit and of the one before it let its key sign."""
        config = find_settings(self._tree(commit) / self._prefix, self._config.variables)
        authority = await to_thread.run_sync(authority_of, config, before)
        both = (*authority.now.signers, *authority.before.signers)
        for signers in (authority.outside,) if authority.outside is not None else both:
            with tempfile.NamedTemporaryFile("w") as file:
                file.write(signers.text)
                file.flush()
                setting = f"gpg.ssh.allowedSignersFile={file.name}"
                try:
                    await self._git("verify-commit", commit, settings=[setting])
                except ReconcilerError:
                    raise _unsigned(commit, signers.where) from None

    async def _git(self, *arguments: str, settings: Sequence[str] = ()) -> str:
        """What git prints. It is killed where this is cancelled. Raises ReconcilerError."""
        options = [word for setting in (*_SAFE, *settings) for word in ("-c", setting)]
        git = self._start(["git", "--no-pager", *options, *arguments])
        try:
            with anyio.fail_after(TIMEOUT_S):
                output, errors = await to_thread.run_sync(git.communicate, abandon_on_cancel=True)
        except TimeoutError:
            raise ReconcilerError(f"git {arguments[0]} did not end within {TIMEOUT_S} s") from None
        finally:
            if git.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(git.pid, signal.SIGKILL)  # with what it started, which holds its pipes open
        if git.returncode:
            said = errors.decode(errors="replace").strip().splitlines()
            why = next((line for line in said if line.startswith(("fatal:", "error:"))), "".join(said[:1]))
            raise ReconcilerError(f"git {arguments[0]} failed: {why or f'exit code {git.returncode}'}")
        return os.fsdecode(output).strip()

    def _start(self, command: list[str]) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(  # noqa: S603 - no shell, and names cannot be options
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=self._folder,
                env=self._env,
                start_new_session=True,
            )
        except OSError as failure:
            raise ReconcilerError(f"git cannot be run: {failure.strerror or failure}") from failure


def is_path(url: str) -> bool:
    """Whether git takes the address of a remote for a path: no colon stands before its first slash."""
    return ":" not in url.partition("/")[0]


def _rewritten(branch: str, before: str, tip: str) -> Refused:
    accept = command("controller", "accept", tip)
    message = f"{branch} is {tip} now, which does not follow {before[:12]}"  # all of what `accept` takes
    help = f"find out who rewrote it; if that is right: `{accept}`"
    problem = error("source-rewritten", message, help=help, advice=(accept,))
    return Refused("the source was rewritten; the commit before stays in use", [problem])


def _unsigned(commit: str, signers: str) -> Refused:
    message = f"{commit[:12]} is not signed by anybody whom {signers} names"
    help = "sign it with an SSH key; a merge that the host's web page made has no such signature"
    problem = error("source-unsigned", message, help=help)
    return Refused("the source is not signed; the commit before stays in use", [problem])
