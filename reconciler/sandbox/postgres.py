"""Real PostgreSQL servers for the clusters of a world (`--postgres real`), each with its own data and port.

A cluster's folder holds `data` and `backups`, one base backup for each label. A server keeps all WAL that it
ever wrote: from a base backup on, it leads to each later moment. A restore recovers a copy of the newest base
backup before that moment, within the call.

A process of its own, the watchdog, holds the other end of a pipe to the sandbox. However the sandbox ends,
the watchdog then stops the servers, and removes the folder unless the world is kept in a file.
"""

import fcntl
import logging
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from random import SystemRandom
from typing import Any, NamedTuple
from urllib.parse import quote

from reconciler.core.errors import ReconcilerError
from reconciler.sandbox.clock import WorldClock

_log = logging.getLogger(__name__)
HOST = "127.0.0.1"
_ACCOUNT = "postgres"  # also the name of the superuser in each server
_DEBIAN = Path("/usr/lib/postgresql")
_PORTS = range(20_000, 32_000)  # below those that the kernel gives to outgoing connections
_NAP_S = 0.02
_MANIFEST = "backup_manifest"  # pg_basebackup writes it at the end
_ACCESS = f"""\
local all all trust
local replication all trust
host all all {HOST}/32 scram-sha-256
"""  # the folder with the sockets is closed to other users
_INITDB = ("-E", "UTF8", "--locale=C", "--wal-segsize=1", "--no-sync", "-A", "trust")
_SETTINGS = (
    "fsync=off",
    "shared_buffers=16MB",
    "wal_keep_size=1000000000",  # MB: nothing is ever removed
    "wal_recycle=off",
    "log_min_error_statement=panic",  # statements may hold passwords
)
_RECOVERY = ("recovery_target_action=promote", "hot_standby=off")  # ready means: recovered
_WATCHDOG = """\
trap '' HUP INT TERM
cat >/dev/null
for data in */data; do
    [ ! -e "$data/postmaster.pid" ] || "$0/pg_ctl" stop -s -m fast -D "$data" &
done
wait
[ "$1" = kept ] || rm -rf "$PWD"
"""


class _Moment(NamedTuple):
    """From the real time `real` on, the world's clock ran from `world` on, `rate` times as fast."""

    real: float
    world: float
    rate: float


class Servers:
    """The servers of one sandbox, by the ids of their clusters.

    With `db`, the file of the world, data outlive the process. `password` is that of the superuser.
    Raises ReconcilerError where PostgreSQL is not installed or the folder is not ours.
    """

    def __init__(self, db: Path | None, password: str, clock: WorldClock) -> None:
        binaries = _binaries()
        ask = (str(binaries / "initdb"), "--version")
        said = subprocess.run(ask, check=True, capture_output=True, text=True)  # noqa: S603 - as found
        self.newest = re.findall(r"[0-9]+", said.stdout)[0]  # of a cluster for which nobody chose a version
        self._password = password
        self._as_account = _account()
        self._folder = _folder(db, self._as_account.get("user", os.geteuid()))
        self._running: dict[str, subprocess.Popen[Any]] = {}
        # Drills measure how old the newest change is: by the real clock, which the world's is to be, too.
        self._settings = (*_SETTINGS, f"track_commit_timestamp={'on' if clock.setting == 'real' else 'off'}")
        lock = os.open(self._folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)  # until the watchdog of a killed sandbox is done
        self._watchdog = subprocess.Popen(  # noqa: S603 - our own script
            ["/bin/sh", "-c", _WATCHDOG, binaries, "temporary" if db is None else "kept"],
            stdin=subprocess.PIPE,
            pass_fds=[lock],
            start_new_session=True,
            **self._common(),
        )
        os.close(lock)
        self._clock_file = self._folder / ".clock"
        lines = self._clock_file.read_text().splitlines() if self._clock_file.exists() else ()
        self._moments = [_Moment(*map(float, line.split())) for line in lines]
        self.note(clock)

    def note(self, clock: WorldClock) -> None:
        """Note that the clock has just been set to its present time."""
        moment = _Moment(time.time(), clock.now(), clock.rate)
        self._moments.append(moment)
        with self._clock_file.open("a") as file:
            file.write(f"{moment.real!r} {moment.world!r} {moment.rate!r}\n")

    def attach(self, clusters: Mapping[str, str], ready: set[str]) -> None:
        """Start the servers of `clusters` (id → major version), and remove the data of all others.

        One that is `ready` and has no data gets an empty server. Raises ReconcilerError if one fails.
        """
        for folder in self._folder.glob("*/"):  # templates, too: one may be incomplete
            if folder.name not in clusters:
                shutil.rmtree(folder)
        try:
            for id, major in clusters.items():
                if (self._folder / id).exists():
                    self._start(id)
                elif id in ready:
                    self.plant(id, major)
        except ReconcilerError:
            self.close()
            raise

    def create(self, id: str, major: str) -> None:
        """Start an empty server of this major version, or of the newest one installed."""
        with self._or_none(id):
            template = self._folder / f".template-{major}"
            if not template.exists():
                self._run(_binaries(major) / "initdb", "-D", template, "-U", _ACCOUNT, *_INITDB)
                (template / "pg_hba.conf").write_text(_ACCESS)
            self._copy(template, id)
            self._start(id)

    def plant(self, id: str, major: str) -> None:
        """Start an empty server for a cluster that was not created by a request: it needs a backup, too."""
        self.create(id, major)
        self.back_up(id, "initial")

    def back_up(self, id: str, label: str) -> int | None:
        """Make a base backup: its size in bytes, None when it failed."""
        backup = self._backup(id, label)
        options = ("-D", backup, "--checkpoint=fast", "--no-sync", "--wal-method=fetch")
        try:
            self._client(id, "pg_basebackup", *options)
        except ReconcilerError as failure:
            _log.warning("cluster %s: %s", id, failure)
            return None
        now = time.time()
        os.utime(backup / _MANIFEST, (now, now))  # when it ended
        return sum(file.stat().st_size for file in backup.rglob("*") if file.is_file())

    def restore_backup(self, source: str, id: str, label: str) -> None:
        """Start a server with the data of `source` as of the end of this backup."""
        with self._or_none(id):
            self._recover(source, id, self._backup(source, label), "recovery_target=immediate")

    def restore_moment(self, source: str, id: str, at: float) -> None:
        """Start a server with the data of `source` as of a time of the world.

        A time before the end of the first backup means that backup.
        """
        with self._or_none(id):
            moment = self._real(at)
            manifests = (self._folder / source / "backups").glob(f"*/{_MANIFEST}")
            ends = {file.stat().st_mtime: file.parent for file in manifests}
            if not ends:
                raise ReconcilerError(f"cluster {source} has no base backup")
            before = [end for end in ends if end <= moment]
            target = "recovery_target=immediate"
            if before:
                target = f"recovery_target_time={datetime.fromtimestamp(moment, UTC).isoformat()}"
            # recovery looks for a commit after its target, so there must be one
            self._sql(source, "SELECT pg_logical_emit_message(true, '', ''); SELECT pg_switch_wal();")
            self._recover(source, id, ends[max(before) if before else min(ends)], target)

    def address(self, id: str) -> dict[str, Any] | None:
        """Host and port of the cluster's server; None when there is none."""
        return {"host": HOST, "port": self._port(id)} if id in self._running else None

    def remove(self, id: str) -> None:
        """Stop the server and remove its data and backups, if there are any."""
        if process := self._running.pop(id, None):
            process.send_signal(signal.SIGQUIT)
            process.wait()
        shutil.rmtree(self._folder / id, ignore_errors=True)

    def close(self) -> None:
        """Stop all servers."""
        assert self._watchdog.stdin is not None
        for process in self._running.values():
            process.poll()  # one that crashed counts as running until then
        self._watchdog.stdin.close()
        for process in (self._watchdog, *self._running.values()):
            process.wait()

    def _recover(self, source: str, id: str, base: Path, target: str) -> None:
        """Start a server from a base backup of `source` and its WAL up to `target`."""
        self._copy(base, id)
        (self._folder / id / "data" / "recovery.signal").touch()
        self._start(id, *_RECOVERY, target, f"restore_command=cp ../../{source}/data/pg_wal/%f %p")

    def _real(self, at: float) -> float:
        """The last real time at which the world's clock had not passed `at`."""
        end = time.time()
        for moment in reversed(self._moments):
            if moment.world <= at:
                return min(end, moment.real + (at - moment.world) / moment.rate) if moment.rate else end
            end = moment.real
        return end

    def _start(self, id: str, *settings: str) -> None:
        """Start the server of a folder, and return when it accepts connections."""
        folder = self._folder / id
        binaries = _binaries((folder / "data" / "PG_VERSION").read_text().strip())
        self._find_port(folder / "port")
        port = str(self._port(id))
        options = ["-D", str(folder / "data"), "-h", HOST, "-p", port, "-k", str(self._folder)]
        options += [word for setting in (*self._settings, *settings) for word in ("-c", setting)]
        log = folder / "log"
        with log.open("ab") as output:
            process = subprocess.Popen(  # noqa: S603 - an installed program
                [binaries / "postgres", *options],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # a Ctrl-C on the terminal is for the sandbox
                **self._common(),
            )
        while not _is_ready(folder / "data" / "postmaster.pid", process.pid):
            if process.poll() is not None:
                said = log.read_text(errors="replace").strip().rpartition("\n")[2]
                raise ReconcilerError(f"the PostgreSQL server of cluster {id} did not start: {said}")
            time.sleep(_NAP_S)
        self._running[id] = process
        password = self._password.replace("'", "''")
        self._sql(id, f"ALTER ROLE {_ACCOUNT} PASSWORD '{password}';")

    def _find_port(self, file: Path) -> None:
        """Write a free port to `file`, unless the one there is free."""
        candidates = [int(file.read_text())] if file.exists() else []
        candidates += SystemRandom().sample(_PORTS, 100)
        file.write_text(str(next(port for port in candidates if _is_free(port))))

    def _port(self, id: str) -> int:
        return int((self._folder / id / "port").read_text())

    def _backup(self, id: str, label: str) -> Path:
        """The folder of a backup, whatever a seed calls it."""
        return self._folder / id / "backups" / f"of-{quote(label, safe='')}"

    def _sql(self, id: str, statements: str) -> None:
        options = ("-d", "postgres", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-o", os.devnull)
        self._client(id, "psql", *options, input=statements)

    def _client(self, id: str, program: str, *options: str | Path, input: str = "") -> None:
        if id not in self._running:
            raise ReconcilerError(f"no server of cluster {id} runs")
        port = ("-h", self._folder, "-p", str(self._port(id)))
        self._run(_binaries() / program, *port, "-U", _ACCOUNT, *options, input=input)

    def _copy(self, data: Path, id: str) -> None:
        script = 'mkdir -p "$2/backups" && cp -R "$1" "$2/data"'
        self._run("/bin/sh", "-c", script, "sh", data, self._folder / id)

    def _run(self, *command: str | Path, input: str = "") -> None:
        """Run a program to its end. Raises ReconcilerError with what it said last."""
        ran = subprocess.run(  # noqa: S603 - installed programs and our own scripts
            command, input=input, capture_output=True, text=True, check=False, **self._common()
        )
        if ran.returncode:
            said = ran.stderr.strip().rpartition("\n")[2]
            raise ReconcilerError(f"{Path(command[0]).name} failed: {said}")

    def _common(self) -> dict[str, Any]:
        """Arguments for `subprocess`: an account that PostgreSQL accepts, and an environment of our own."""
        env = {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "TZ": "UTC"}
        return {"cwd": self._folder, "env": env, **self._as_account}

    @contextmanager
    def _or_none(self, id: str) -> Iterator[None]:
        """Report a failure and leave nothing of the server: the cluster ends as `failed`."""
        try:
            yield
        except (OSError, ReconcilerError) as failure:
            self.remove(id)
            _log.warning("cluster %s: %s", id, failure)


def _binaries(major: str = "") -> Path:
    """The folder with the programs of this major version, else of the newest one installed.

    Debian keeps them out of the path, by version. Raises ReconcilerError where there are none.
    """
    versions = sorted(_DEBIAN.glob("*/bin/initdb"), key=lambda file: float(file.parts[-3]))
    same = [file for file in versions if file.parts[-3] == major]
    found = (same or versions)[-1] if versions else shutil.which("initdb")
    if not found:
        raise ReconcilerError(
            "install postgresql",
            help=f"--postgres real runs PostgreSQL; `initdb` is neither below {_DEBIAN} nor on the PATH",
        )
    return Path(found).resolve().parent


def _account() -> dict[str, Any]:
    """Whom `subprocess` is to run PostgreSQL as, which refuses to run as root; nothing for ourselves."""
    try:
        account = pwd.getpwnam(_ACCOUNT) if os.geteuid() == 0 else None
        return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": ()} if account else {}
    except KeyError:
        raise ReconcilerError(
            f"there is no user `{_ACCOUNT}`, as whom root runs PostgreSQL",
            help="install postgresql from a package, or run the sandbox as another user",
        ) from None


def _folder(db: Path | None, owner: int) -> Path:
    """The folder for everything; for the same `db` the same one. Closed to other users.

    Folders of worlds whose files are gone are removed.
    """
    us, place = os.geteuid(), Path(tempfile.gettempdir())
    for note in place.glob(f"reconcile-postgres-{us}-*/.db"):
        if note.lstat().st_uid == us and not Path(note.read_text()).exists():
            shutil.rmtree(note.parent, ignore_errors=True)
    if db is None:
        folder = Path(tempfile.mkdtemp(prefix="reconcile-postgres-"))
    else:
        key = sha256(str(db.resolve()).encode()).hexdigest()[:16]
        folder = place / f"reconcile-postgres-{us}-{key}"
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.is_symlink() or folder.stat().st_uid not in (owner, us):
            raise ReconcilerError(f"{folder} belongs to somebody else", help="remove it, or set TMPDIR")
        (folder / ".db").write_text(str(db.resolve()))
    os.chown(folder, owner, -1)
    return folder


def _is_free(port: int) -> bool:
    with suppress(OSError), socket.create_server((HOST, port)):
        return True
    return False


def _is_ready(file: Path, pid: int) -> bool:
    """Whether this process accepts connections, by its postmaster.pid."""
    with suppress(FileNotFoundError):
        words = file.read_text().split()
        return bool(words) and words[0] == str(pid) and words[-1] == "ready"
    return False
