"""Resolves a `SecretRef` to its value: a source is read, decrypted or run at most once a run."""

import os
import shlex
import shutil
import stat
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from reconciler.core.advice import Command
from reconciler.core.errors import SecretUnavailable
from reconciler.core.steps import OutputRef, SecretRef
from reconciler.kinds.source import OWN_CREDENTIALS, OWN_VARIABLES, is_armored
from reconciler.secrets import age
from reconciler.secrets.command import (
    DEFAULT_TIMEOUT_S,
    SOPS,
    SOPS_MISSING_HELP,
    ProgramFailed,
    Programs,
    explain_sops,
    side_by_side,
    sops_argv,
)
from reconciler.secrets.sensitive import MAX_BYTES, Sensitive, as_value

if TYPE_CHECKING:
    from reconciler.secrets.age import Identity

IDENTITY = "RECONCILE_AGE_IDENTITY"
IDENTITY_FILE = "RECONCILE_AGE_IDENTITY_FILE"
NO_EXEC = "RECONCILE_NO_EXEC"

_CACHED = ("age", "sops", "exec")  # sources that cost time, or may give another value the next time
_RUN = ("sops", "exec")


class Allowed(Struct, frozen=True):
    """The settings about sources. `programs`: those that `exec` may run.

    `identity_from`: an `env` or `file` source of age identities, unless the environment names one.
    `withheld`: more environment variables that no program gets, except that sops gets its own (`SOPS_…`).
    `values`: variables that secrets are made of: `exec` does not get them. `own`: variables with our own
    credentials, which are not secret values. `confined`: no file outside of the project's root is read, not
    by links either, except identities that the environment names.
    """

    identity_from: SecretRef | None = None
    programs: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()
    values: frozenset[str] = frozenset()
    own: frozenset[str] = OWN_VARIABLES
    confined: bool = False


class Sources:
    """All sources of one project, for one run: decrypted values and outputs of programs stay the same.

    `take_signals`: signals end running programs first; False where signals belong to a caller.
    `runs_programs`: whether `sops` and `exec` are run now; every verb sets it when it starts.
    """

    def __init__(
        self,
        root: Path,
        env: Mapping[str, str],
        allowed: Allowed | None = None,
        *,
        take_signals: bool = True,
        runs_programs: bool = False,
    ) -> None:
        self.runs_programs = runs_programs
        self._take_signals = take_signals
        self._root = root
        self._env = env
        self._allowed = allowed or Allowed()
        self._kept: dict[SecretRef, Sensitive | _Missing] = {}
        self._identities: list[Identity] | _Missing | None = None

    def value(self, ref: SecretRef, output: Callable[[OutputRef], Any]) -> Sensitive:
        """Return the value of `ref`. Raises SecretUnavailable that names the source without a value.

        An empty variable, file or output counts as none: CI systems define empty variables for secrets
        that do not exist. `output` gives the value of an earlier answer; None or a LookupError: not known.
        """
        if ref.source in _RUN and not self.runs_programs:
            self._refuse_unlisted(ref)
            raise SecretUnavailable(
                f"the program `{ref.parts[0] if ref.source == 'exec' else SOPS}` is not run here",
                help="programs are run by `apply`, and by `plan --with-exec`",
            )
        if ref.source in _CACHED:
            self.prepare([ref])
            kept = self._kept[ref]
            if isinstance(kept, _Missing):
                raise SecretUnavailable(kept.message, help=kept.help, advice=kept.advice)
            return kept
        if ref.source == "env":
            if ref.name in self._allowed.own:
                raise SecretUnavailable(
                    f"the environment variable `{ref.name}` holds a credential of this program itself",
                    help="put the value into another variable",
                )
            return Sensitive(_from_env(ref.name, self._env))
        if ref.source == "each":
            raise SecretUnavailable("the value is known only after the answer that contains it")
        if ref.source == "file":
            what = f"the file `{ref.name}`"
            return Sensitive(as_value(read_bytes(self._path(ref.name, what), what, MAX_BYTES), what))
        texts: list[str] = []
        for part in ref.parts:
            if isinstance(part, OutputRef):
                texts.append(_from_output(part, output))
            elif isinstance(part, SecretRef):
                texts.append(self.value(part, output).reveal())
            else:
                texts.append(part)
        return Sensitive("".join(texts))

    def prepare(self, refs: Iterable[SecretRef]) -> bool:
        """Decrypt values, and run programs in parallel, for all new `refs`.

        Return whether programs were run: a signal may have ended them, which the caller has to handle, too.
        """
        sources = _CACHED if self.runs_programs else ("age",)
        new = [ref for ref in dict.fromkeys(refs) if ref.source in sources and ref not in self._kept]
        run = [ref for ref in new if ref.source in _RUN]
        for ref in new:
            if ref.source == "age":
                self._kept[ref] = _caught(partial(self._decrypted, ref))
        if run:
            jobs = [partial(self._ran, ref) for ref in run]
            found = side_by_side(jobs, take_signals=self._take_signals)
            self._kept |= zip(run, found, strict=True)
        return bool(run)

    def is_unchecked(self, ref: SecretRef) -> bool:
        """Whether the value of `ref` is from a program that is not run now."""
        return not self.runs_programs and (ref.source == "sops" or self._is_listed(ref))

    def _is_listed(self, ref: SecretRef) -> bool:
        return ref.source == "exec" and ref.parts[0] in self._allowed.programs

    def _refuse_unlisted(self, ref: SecretRef) -> None:
        """Raises SecretUnavailable for a program that the settings do not name."""
        if ref.source == "exec" and not self._is_listed(ref):
            name = ref.parts[0]
            raise SecretUnavailable(
                f"reconcile.yaml does not allow the program `{name}`",
                help="look at what the manifest would run; to allow the program, "
                f"add it to `secrets: {{exec: [{name}]}}` of reconcile.yaml",
            )

    def _ran(self, ref: SecretRef, programs: Programs) -> "Sensitive | _Missing":
        work = self._from_sops if ref.source == "sops" else self._from_exec
        return _caught(partial(work, ref, programs))

    def _path(self, name: str, what: str) -> Path:
        """Return the file's path. Raises SecretUnavailable for files that show a process's variables."""
        path = self._root / name
        real = os.path.realpath(path)
        if self._allowed.confined and not Path(real).is_relative_to(os.path.realpath(self._root)):
            raise SecretUnavailable(f"{what} is not read: it is outside the project's root")
        if real.startswith("/proc/"):
            raise SecretUnavailable(f"{what} is not read: files in /proc belong to processes")
        return path

    # --- age ---

    def _decrypted(self, ref: SecretRef) -> str:
        inline = is_armored(ref.name)
        what = "the age text in the manifest" if inline else f"the file `{ref.name}`"
        if inline:
            data = ref.name.encode()
        else:
            data = read_bytes(self._path(ref.name, what), what, age.MAX_ENCRYPTED_BYTES)
        return as_value(age.decrypt(data, self._own_identities(), what), f"the content of {what}")

    def _own_identities(self) -> "list[Identity]":
        if self._identities is None:
            try:
                self._identities = self._read_identities()
            except SecretUnavailable as missing:
                self._identities = _Missing(missing.message, missing.help, missing.advice)
        if isinstance(self._identities, _Missing):
            missed = self._identities
            raise SecretUnavailable(missed.message, help=missed.help, advice=missed.advice)
        return self._identities

    def _read_identities(self) -> "list[Identity]":
        source = self._allowed.identity_from
        if self._env.get(IDENTITY):
            source = SecretRef("env", IDENTITY)
        elif self._env.get(IDENTITY_FILE):
            source = SecretRef("file", str(Path(self._env[IDENTITY_FILE]).absolute()))
        if source is None:
            raise SecretUnavailable(
                "there is no age identity to decrypt with",
                help=f"set {IDENTITY_FILE} to its path, or `secrets.age_identity_from` in reconcile.yaml",
            )
        return self.identities(source, named_by_us=source is not self._allowed.identity_from)

    def identities(self, source: SecretRef, *, named_by_us: bool = False) -> "list[Identity]":
        """Return the identities in `source`, an `env` or a `file`. `named_by_us`: the environment names it.

        Raises SecretUnavailable that names the source without a valid identity.
        """
        if source.source == "env":
            return age.parse_identities(_from_env(source.name, self._env), f"the variable `{source.name}`")
        what = f"the age identity's file `{source.name}`"
        path = Path(source.name).expanduser()
        path = self._root / path if named_by_us else self._path(str(path), what)
        return age.parse_identities(as_value(read_bytes(path, what, age.MAX_IDENTITIES_BYTES), what), what)

    # --- programs ---

    def _from_sops(self, ref: SecretRef, programs: Programs) -> str:
        program = self._program(SOPS, help=SOPS_MISSING_HELP)
        path = self._root / ref.name
        argv = sops_argv(program, str(path.absolute()), [str(part) for part in ref.parts])
        try:
            output = self._run(programs, argv, f"sops for `{ref.name}`", ref)
        except ProgramFailed as failed:
            code = failed.code
        else:
            return as_value(output, f"the value in `{ref.name}`")
        raise SecretUnavailable(
            explain_sops(code, ref.name),
            help=f"`sops --decrypt {shlex.quote(ref.name)}` shows the reason; it prints the values, too",
        )

    def _from_exec(self, ref: SecretRef, programs: Programs) -> str:
        name, *arguments = (str(part) for part in ref.parts)
        what = f"the program `{name}`"
        self._refuse_unlisted(ref)
        argv = [self._program(name), *arguments]
        try:
            output = self._run(programs, argv, what, ref)
        except ProgramFailed as failed:
            code = failed.code
        else:
            return as_value(output, f"the output of {what}")
        ended = f"ended with exit code {code}" if code >= 0 else f"was ended by signal {-code}"
        raise SecretUnavailable(f"{what} {ended}", help="run it yourself to see its messages")

    def _program(self, name: str, *, help: str = "") -> str:
        """Return the program's path. A name with a slash is relative to the root, as in a shell there."""
        if self._env.get(NO_EXEC, "0") not in ("", "0"):
            raise SecretUnavailable(f"the program `{name}` was not started: {NO_EXEC} is set")
        if "/" in name:
            return str((self._root / name).absolute())
        found = shutil.which(name, path=self._env.get("PATH", ""))
        if found is None:
            raise SecretUnavailable(f"the program `{name}` is not on PATH", help=help)
        return str(Path(found).absolute())

    def _run(self, programs: Programs, argv: list[str], what: str, ref: SecretRef) -> bytes:
        withheld = {*self._allowed.withheld, *OWN_CREDENTIALS}
        if ref.source == "sops":  # it decrypts with our identity where both are given the same one
            withheld = {name for name in withheld if not name.startswith("SOPS_")}
        else:
            withheld |= self._allowed.values
        env = {name: value for name, value in self._env.items() if name not in withheld}
        timeout_s = ref.timeout_s or DEFAULT_TIMEOUT_S
        return programs.run(argv, what=what, cwd=self._root, env=env, timeout_s=timeout_s)


class _Missing(Struct, frozen=True):
    """Why there is no value. An exception would carry the values of frames that it passed through."""

    message: str
    help: str
    advice: tuple[Command, ...]


def _caught(work: Callable[[], str]) -> Sensitive | _Missing:
    try:
        return Sensitive(work())
    except SecretUnavailable as missing:
        return _Missing(missing.message, missing.help, missing.advice)


def read_bytes(path: Path, what: str, most: int) -> bytes:
    """Return the file's first `most` + 1 bytes. Raises SecretUnavailable, also for irregular files.

    A pipe may have no writer; a device may have no end, or change by being read.
    """
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return file.read(most + 1)
        reason: str | None = "it is not a regular file"
    except OSError as failure:
        reason = failure.strerror
    raise SecretUnavailable(f"{what} cannot be read: {reason}")


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)


def _from_env(name: str, env: Mapping[str, str]) -> str:
    value = env.get(name)
    if value is None:
        raise SecretUnavailable(f"the environment variable `{name}` is not set")
    if not value:
        raise SecretUnavailable(f"the environment variable `{name}` is empty")
    # What is not UTF-8 in the environment, Python hands over as lone surrogates.
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise SecretUnavailable(
            f"the environment variable `{name}` is not UTF-8 text",
            help="encode the value, for example as base64",
        )
    return value


def _from_output(ref: OutputRef, output: Callable[[OutputRef], Any]) -> str:
    try:
        value = output(ref)
    except LookupError as error:
        raise SecretUnavailable(f"`{ref}` is not known") from error
    if value is None:
        raise SecretUnavailable(f"`{ref}` is not known")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise SecretUnavailable(f"`{ref}` is not a single value")
