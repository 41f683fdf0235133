import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest

from reconciler.core.errors import SecretUnavailable
from reconciler.core.steps import OutputRef, SecretRef
from reconciler.secrets.sensitive import MAX_BYTES
from reconciler.secrets.sources import Sources, read_bytes

HOST = OutputRef("PostgresCluster/orders", "endpoints.primary.pooler.host")


def nothing_known(ref: OutputRef) -> Any:
    raise KeyError(ref)


def value_of(
    ref: SecretRef,
    *,
    env: dict[str, str] | None = None,
    root: Path = Path("/nowhere"),
    output: Callable[[OutputRef], Any] = nothing_known,
) -> str:
    return Sources(root, env or {}).value(ref, output).reveal()


FROM_FILE = SecretRef("file", "secrets/pw")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "secrets").mkdir()
    return tmp_path


def test_a_variable_gives_its_value_unchanged() -> None:
    assert value_of(SecretRef("env", "PW"), env={"PW": " a\n"}) == " a\n"


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (b"hunter2", "hunter2"),
        (b"hunter2\n", "hunter2"),
        (b"hunter2\r\n", "hunter2"),
        (b"hunter2\n\n", "hunter2\n"),
        (b" hunter2 \n", " hunter2 "),
        ("pässwort\n".encode(), "pässwort"),
        (b"x" * MAX_BYTES, "x" * MAX_BYTES),
    ],
)
def test_a_file_gives_its_text_without_one_last_newline(root: Path, content: bytes, value: str) -> None:
    (root / FROM_FILE.name).write_bytes(content)
    assert value_of(FROM_FILE, root=root) == value


def test_a_template_joins_text_answers_and_other_secrets() -> None:
    port = OutputRef("PostgresCluster/orders", "endpoints.primary.pooler.port")
    pooled = OutputRef("PostgresCluster/orders", "pooled")
    ref = SecretRef(
        "template", parts=("postgres://app:", SecretRef("env", "PW"), "@", HOST, ":", port, "/?p=", pooled)
    )
    outputs: dict[OutputRef, Any] = {HOST: "db.internal", port: 5432, pooled: True}
    value = value_of(ref, env={"PW": "hunter2"}, output=outputs.__getitem__)
    assert value == "postgres://app:hunter2@db.internal:5432/?p=true"


@pytest.mark.parametrize(
    ("ref", "env", "named"),
    [
        (SecretRef("env", "PW"), {}, "`PW` is not set"),
        (SecretRef("env", "PW"), {"PW": ""}, "`PW` is empty"),
        (SecretRef("env", "PW"), {"PW": "hunter2\udcff"}, "`PW` is not UTF-8 text"),
        (SecretRef("template", parts=("a", SecretRef("env", "PW"))), {"OTHER": "hunter2"}, "`PW` is not set"),
    ],
)
def test_a_variable_without_a_value_is_named(ref: SecretRef, env: dict[str, str], named: str) -> None:
    with pytest.raises(SecretUnavailable, match=named) as unavailable:
        value_of(ref, env=env)
    assert "hunter2" not in str(unavailable.value)
    assert unavailable.value.__context__ is None


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is empty"),
        (b"\n", "is empty"),
        (b"hunter2\xff", "is not UTF-8 text"),
        (b"hunter2" * MAX_BYTES, "is larger than"),
    ],
)
def test_an_unfit_file_is_named_and_its_bytes_go_nowhere(root: Path, content: bytes, problem: str) -> None:
    (root / FROM_FILE.name).write_bytes(content)
    with pytest.raises(SecretUnavailable, match=f"`secrets/pw` {problem}") as unavailable:
        value_of(FROM_FILE, root=root)
    assert "hunter2" not in str(unavailable.value) + unavailable.value.help
    assert unavailable.value.__context__ is None


def test_a_file_that_cannot_be_read_is_named() -> None:
    ref = SecretRef("file", "/nowhere/pw")
    with pytest.raises(SecretUnavailable, match="`/nowhere/pw` cannot be read: No such file"):
        value_of(ref)


@pytest.mark.parametrize("source", ["file", "age"])
def test_a_pipe_that_nobody_writes_to_is_refused_at_once(root: Path, source: Literal["file", "age"]) -> None:
    os.mkfifo(root / "pipe")
    sources = Sources(root, {"RECONCILE_AGE_IDENTITY_FILE": str(root / "pipe")})
    with pytest.raises(SecretUnavailable, match="pipe` cannot be read: it is not a regular file"):
        sources.value(SecretRef(source, "pipe"), nothing_known)
    (root / "pw.age").write_text("x")
    with pytest.raises(SecretUnavailable, match=r"identity's file .*: it is not a regular file"):
        sources.value(SecretRef("age", "pw.age"), nothing_known)


def test_a_device_is_refused_and_a_long_file_read_only_a_little(tmp_path: Path) -> None:
    with pytest.raises(SecretUnavailable, match="not a regular file"):
        read_bytes(Path("/dev/zero"), "it", 10)
    long = tmp_path / "long"
    long.write_bytes(bytes(100))
    assert len(read_bytes(long, "it", 10)) == 11


@pytest.mark.parametrize("known", [{}, {HOST: None}])
def test_an_answer_that_is_not_known_yet_is_named(known: dict[OutputRef, Any]) -> None:
    with pytest.raises(SecretUnavailable, match=r"endpoints\.primary\.pooler\.host.*is not known"):
        value_of(SecretRef("template", parts=(HOST,)), output=known.__getitem__)


def test_an_answer_of_many_values_is_refused() -> None:
    with pytest.raises(SecretUnavailable, match="is not a single value"):
        value_of(SecretRef("template", parts=(HOST,)), output=lambda ref: {"host": "db"})


@pytest.mark.parametrize(
    "name", ["RECONCILE_TOKEN", "RECONCILE_STATE", "RECONCILE_AGE_IDENTITY", "RECONCILE_AGE_IDENTITY_FILE"]
)
def test_a_credential_of_this_program_is_no_value(name: str) -> None:
    for ref in (SecretRef("env", name), SecretRef("template", parts=("a-", SecretRef("env", name)))):
        with pytest.raises(SecretUnavailable, match=f"`{name}` holds a credential of this program"):
            value_of(ref, env={name: "hunter2"})


def test_variables_of_processes_are_not_read_as_files(root: Path) -> None:
    (root / "link").symlink_to("/proc/self/environ")
    for name in (
        "/proc/self/environ",
        "../../../../../../proc/self/environ",
        "link",
        "/proc/self/root/proc/1/environ",
    ):
        for ref in (SecretRef("file", name), SecretRef("age", name)):
            with pytest.raises(SecretUnavailable, match="files in /proc belong to processes"):
                value_of(ref, root=root)
