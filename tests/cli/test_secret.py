"""`reconcile secret`: encrypt, keygen, fingerprint; and how the values of all sources arrive."""

import hashlib
import io
import json
import os
import re
import stat
import sys
from base64 import b64encode
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from reconciler.cli.main import run
from reconciler.sandbox.parts.secret import holds
from reconciler.secrets import age
from tests.age_keys import generate
from tests.cli.harness import Project, Ran, Sandbox, cluster, secret
from tests.cli.terminal import on_a_terminal

STAND_IN = Path(__file__).parent.parent / "secrets"  # the directory of a `sops`
VALUE = "canary-0815-value"


Run = Callable[..., Ran]


@pytest.fixture
def verb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a verb in this process, in a project of its own; no value may be in what it prints."""
    monkeypatch.chdir(tmp_path)
    for name in ("RECONCILE_AGE_IDENTITY", "RECONCILE_AGE_IDENTITY_FILE", "RECONCILE_STATE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "manifests").mkdir(exist_ok=True)
    (tmp_path / "reconcile.yaml").write_text("manifests: [manifests]\n")

    def ran(*arguments: str, stdin: bytes = b"") -> Ran:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = run(list(arguments))
        told = capsys.readouterr()
        assert VALUE not in told.out + told.err
        return Ran(code, told.out, told.err)

    return ran


def decrypted(armored: str, identity: str) -> str:
    return age.decrypt(armored.encode(), age.parse_identities(identity, "it"), "it").decode()


# --- encrypt, keygen ---


def test_a_value_from_standard_input_is_encrypted_to_each_recipient(verb: Run) -> None:
    (first, to_first), (second, to_second) = generate(), generate()
    ran = verb("secret", "encrypt", "--to", to_first, "--to", to_second, stdin=f"{VALUE}\n".encode())
    assert ran.code == 0
    assert [decrypted(ran.out, identity) for identity in (first, second)] == [f"{VALUE}\n"] * 2


def test_a_file_is_replaced_as_a_whole_and_read_by_its_owner_only(verb: Run, tmp_path: Path) -> None:
    identity, recipient = generate()
    (tmp_path / "reconcile.yaml").write_text(f"secrets: {{age_recipients: [{recipient}]}}\n")
    before = age.encrypt(b"before", [recipient])
    (tmp_path / "pw.age").write_text(before)
    assert "recipient 1" in verb("secret", "encrypt", "--to", "age1x", "--out", "pw.age", stdin=b"x").err
    assert verb("secret", "encrypt", "--out", "pw.age", stdin=b"").code == 1
    assert (tmp_path / "pw.age").read_text() == before
    ran = verb("secret", "encrypt", "--out", "pw.age", "--output", "json", stdin=VALUE.encode())
    assert json.loads(ran.out) == {"format_version": "1", "file": "pw.age", "recipients": [recipient]}
    assert decrypted((tmp_path / "pw.age").read_text(), identity) == VALUE
    assert stat.S_IMODE((tmp_path / "pw.age").stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["manifests", "pw.age", "reconcile.yaml"]
    assert "cannot write no/pw.age" in verb("secret", "encrypt", "--out", "no/pw.age", stdin=b"x").err


def test_nothing_but_an_encrypted_value_is_replaced(verb: Run, tmp_path: Path) -> None:
    identity, recipient = generate()
    (tmp_path / "key.txt").write_text(f"# public key: {recipient}\n{identity}\n")
    (tmp_path / "manifests" / "a.yaml").write_text(secret("shop", "PASSWORD", "env: SHOP_PASSWORD"))
    (tmp_path / "empty").touch()
    (tmp_path / "large.age").write_bytes(b"age-encryption.org/v1\n" + b"x" * age.MAX_ENCRYPTED_BYTES)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("nowhere")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for name in ("key.txt", "reconcile.yaml", "manifests/a.yaml", "empty", "large.age", "pipe", "link"):
        ran = verb("secret", "encrypt", "--to", recipient, "--out", name, stdin=VALUE.encode())
        assert (ran.code, ran.out) == (1, ""), name
        assert f"error: {name} " in ran.err
        assert "name another FILE" in ran.err
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert (tmp_path / "link").is_symlink()


def test_a_file_that_appears_while_the_value_is_typed_is_not_replaced(
    verb: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def typed() -> bytes:
        (tmp_path / "pw.age").write_text("made meanwhile")
        return VALUE.encode()

    monkeypatch.setattr("reconciler.cli.secret._read_value", typed)
    assert verb("secret", "encrypt", "--to", generate()[1], "--out", "pw.age").code == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["manifests", "pw.age", "reconcile.yaml"]
    assert (tmp_path / "pw.age").read_text() == "made meanwhile"


@pytest.mark.parametrize(
    ("stdin", "told"),
    [(b"", "is empty"), (b"\n", "is empty"), (b"\xff", "is not UTF-8"), (b"x" * 2**21, "larger")],
)
def test_what_could_not_be_read_again_is_not_encrypted(verb: Run, stdin: bytes, told: str) -> None:
    ran = verb("secret", "encrypt", "--to", generate()[1], stdin=stdin)
    assert (ran.code, ran.out) == (1, "")
    assert told in ran.err


def test_without_a_recipient_both_ways_out_are_named(verb: Run) -> None:
    ran = verb("secret", "encrypt", stdin=VALUE.encode())
    assert ran.code == 1
    for way in ("--to", "age_recipients", "age-keygen -o FILE"):
        assert way in ran.err


@pytest.mark.parametrize(
    "arguments", [[VALUE], [f"--{VALUE}"], [f"-{VALUE}"], ["--", f"-{VALUE}"], ["-", "x"]]
)
def test_an_argument_that_may_be_the_value_is_not_repeated(verb: Run, arguments: list[str]) -> None:
    ran = verb("secret", "encrypt", "--to", generate()[1], *arguments, stdin=b"x")
    assert (ran.code, ran.out) == (64, "")
    assert "read from standard input" in ran.err
    assert "Usage: reconcile secret encrypt" in ran.err


def test_a_terminal_is_asked_twice_and_shows_nothing_typed(project: Project) -> None:
    identity, recipient = generate()
    questions = (b"Value: ", b"Repeat for confirmation: ")
    typed = dict.fromkeys(questions, f"{VALUE}\n".encode())  # before it is asked for, it is thrown away
    command = ("secret", "encrypt", "--to", recipient, "--out", "pw.age")
    code, shown = on_a_terminal(project, *command, answers=typed)
    assert (code, VALUE in shown) == (0, False)
    assert decrypted((project.root / "pw.age").read_text(), identity) == VALUE


def test_the_old_word_for_a_key_says_the_new_one(verb: Run) -> None:
    ran = verb("secret", "keygen", "key.txt")
    assert (ran.code, ran.err) == (64, "Error: `secret keygen` is `age-keygen -o FILE` now\n")


# --- fingerprint ---


def fingerprints(ran: Ran) -> list[tuple[str, str]]:
    return [(each["address"], each["comparison"]) for each in json.loads(ran.out)["secrets"]]


def test_a_fingerprint_tells_whether_the_value_is_the_one_that_was_set(
    project: Project, sandbox: Sandbox, app: str, monkeypatch: pytest.MonkeyPatch, verb: Run
) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", VALUE)
    project.write(secret(app, "PASSWORD", "env: SHOP_PASSWORD"))
    project.apply(env={"SHOP_PASSWORD": VALUE})
    host = "template: 'x${PostgresCluster/orders:endpoints.direct.host}'"
    more = secret(app, "HOST", host) + secret(app, "NEW", "env: SHOP_PASSWORD") + cluster("orders")
    project.write(more, "manifests/b.yaml")
    shown = verb("secret", "fingerprint", "--output", "json")
    assert shown.code == 0
    assert fingerprints(shown) == [
        (f"Secret/{app}/HOST", "not_known"),
        (f"Secret/{app}/NEW", "not_set"),
        (f"Secret/{app}/PASSWORD", "same"),
    ]
    first = json.loads(shown.out)["secrets"][2]["fingerprint"]
    assert re.fullmatch("[0-9a-f]{64}", first)
    assert first != hashlib.sha256(VALUE.encode()).hexdigest()
    assert first in verb("state", "show", f"Secret/{app}/PASSWORD").out

    monkeypatch.setenv("SHOP_PASSWORD", f"{VALUE}-2")
    differs = verb("secret", "fingerprint", f"Secret/{app}/PASSWORD")
    assert differs.out.endswith("  differs\n")
    assert differs.out.count("\n") == 1
    assert first not in differs.out

    monkeypatch.delenv("SHOP_PASSWORD")
    unreadable = verb("secret", "fingerprint")
    assert unreadable.code == 1
    assert f"Secret/{app}/NEW  -  source not readable (the environment variable" in unreadable.out


def test_without_a_state_there_is_no_fingerprint_and_none_is_made(
    verb: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", VALUE)
    (tmp_path / "manifests" / "a.yaml").write_text(secret("shop", "PASSWORD", "env: SHOP_PASSWORD"))
    ran = verb("secret", "fingerprint", "--output", "json")
    assert ran.code == 1
    assert "reconcile state init" in json.loads(ran.out)["diagnostics"][0]["help"]
    assert not (tmp_path / ".reconcile").exists()


def test_an_address_without_a_secret_is_named(verb: Run) -> None:
    verb("state", "init")
    assert "have no secret `Secret/shop/NONE`" in verb("secret", "fingerprint", "Secret/shop/NONE").err
    assert verb("secret", "fingerprint", "nonsense").code == 64


# --- from the sources to the platform ---


@pytest.fixture
def every_source(project: Project, app: str) -> dict[str, str]:
    """Manifests with secrets from age, sops and exec; the environment in which they can be read."""
    identity, recipient = generate()
    manifests = project.root / "manifests"
    (manifests / "pw.age").write_text(age.encrypt(f"{VALUE}-age\n".encode(), [recipient]))
    inline = age.encrypt(f"{VALUE}-inline".encode(), [recipient]).replace("\n", "\n      ")
    value, neighbour = (
        f"ENC[AES256_GCM,data:{b64encode(text.encode()).decode()},iv:aa=,tag:bb==,type:str]"
        for text in (f"{VALUE}-sops", f"{VALUE}-neighbour")
    )
    content = {"a": {"b": value}, "neighbour": neighbour, "sops": {"mac": "ENC[…]", "version": "3.9.4"}}
    (manifests / "secrets.enc.yaml").write_text(json.dumps(content, indent=2))
    count = "echo run >> runs.txt; printenv SHOP_PASSWORD; printenv SHOP_PASSWORD >&2"
    project.write(
        secret(app, "AGE", "age: pw.age")
        + f"---\napiVersion: reconciler/v1\nkind: Secret\nmetadata: {{name: INLINE, app: {app}}}\n"
        + f"spec:\n  value_from:\n    age: |\n      {inline}\n"
        + secret(app, "SOPS", "sops: {file: secrets.enc.yaml, key: a.b}")
        + secret(app, "EXEC", f"exec: [sh, -c, '{count}'], timeout_s: 60")
    )
    project.write("manifests: [manifests]\nsecrets: {exec: [sh]}\n", "reconcile.yaml")
    return {
        "RECONCILE_AGE_IDENTITY": identity,
        "SOPS_AGE_KEY": "any",
        "SHOP_PASSWORD": f"{VALUE}-exec",
        "PATH": f"{STAND_IN}:{os.environ['PATH']}",
    }


def hold(sandbox: Sandbox, app: str, values: Mapping[str, str]) -> bool:
    kept = {each["name"]: each["fingerprint"] for each in sandbox.secrets(app)}
    return kept.keys() == values.keys() and all(holds(kept[name], values[name]) for name in values)


def test_each_source_gives_its_value_once_a_run_and_nobody_else_sees_it(
    project: Project, sandbox: Sandbox, app: str, every_source: dict[str, str], sandbox_db: Path
) -> None:
    ran = [project.run("validate", env=every_source)]
    assert not (project.root / "runs.txt").exists()
    ran += [project.run("-vv", "plan", "--with-exec", "--out", "saved.plan", env=every_source)]
    assert (project.root / "runs.txt").read_text() == "run\n"
    ran += [project.run("-vv", "apply", "--plan", "saved.plan", env=every_source)]
    assert (project.root / "runs.txt").read_text() == "run\n" * 2
    names = {"AGE": "age", "INLINE": "inline", "SOPS": "sops", "EXEC": "exec"}
    assert hold(sandbox, app, {name: f"{VALUE}-{source}" for name, source in names.items()})
    ran += [project.run("apply", "--auto-approve", env=every_source)]
    assert "No changes" in ran[-1].out
    told = "".join(each.out + each.err for each in ran)
    for hidden in (VALUE, every_source["RECONCILE_AGE_IDENTITY"]):
        assert hidden not in told
        for file in [*project.root.rglob("*"), *sandbox_db.parent.iterdir()]:
            assert not file.is_file() or hidden.encode() not in file.read_bytes(), file


@pytest.mark.parametrize("verb", ["apply", "plan", "fingerprint"])
def test_a_program_does_not_get_the_variables_of_other_secrets(project: Project, app: str, verb: str) -> None:
    arguments = {
        "apply": ("apply", f"--target=Secret/{app}/TOLD", "--auto-approve"),
        "plan": ("plan", f"--target=Secret/{app}/TOLD", "--with-exec"),
        "fingerprint": ("secret", "fingerprint", f"Secret/{app}/TOLD"),
    }
    project.write(
        secret(app, "TOLD", "exec: [sh, -c, 'echo x; printenv > told.txt']")
        + secret(app, "PLAIN", "env: SHOP_PLAIN")
        + secret(app, "BOTH", "template: 'a${env:SHOP_PART}b'")
    )
    project.write("manifests: [manifests]\nsecrets: {exec: [sh]}\n", "reconcile.yaml")
    project.run(*arguments[verb], env={"SHOP_PLAIN": "1", "SHOP_PART": "2", "SHOP_OTHER": "3"})
    told = (project.root / "told.txt").read_text()
    assert [line for line in told.splitlines() if line.startswith("SHOP_")] == ["SHOP_OTHER=3"]


def planned(project: Project, env: dict[str, str], *options: str) -> dict[str, str]:
    changes = project.json("plan", *options, env=env).json["changes"]
    return {change["address"].rsplit("/")[-1]: change["reason"] for change in changes}


def test_a_plan_runs_no_program_and_what_it_sets_is_compared_when_applied(
    project: Project, sandbox: Sandbox, app: str, every_source: dict[str, str]
) -> None:
    runs = project.root / "runs.txt"
    new = "not yet managed, its value was not checked; machines see it at their next start or update"
    assert {
        name: why for name, why in planned(project, every_source).items() if name in ("SOPS", "EXEC")
    } == {
        "SOPS": new,
        "EXEC": new,
    }
    assert not runs.exists()
    project.run("apply", "--auto-approve", env=every_source)
    runs.unlink()
    same = "not checked, compared when applied; machines see it at their next start or update"
    assert planned(project, every_source) == {"SOPS": same, "EXEC": same}
    assert planned(project, every_source, "--with-exec") == {}
    assert runs.read_text() == "run\n"
    project.run("drift", env=every_source)
    assert runs.read_text() == "run\n"
    project.run("plan", "--out", "saved.plan", env=every_source)
    with sandbox.recording() as requests:
        project.run("apply", "--plan", "saved.plan", "--auto-approve", env=every_source)
    assert {method for method, _ in requests} <= {"GET"}
    project.run("plan", "--out", "saved.plan", env=every_source)
    rotated = {**every_source, "SHOP_PASSWORD": f"{VALUE}-rotated"}
    with sandbox.recording() as requests:
        project.run("apply", "--plan", "saved.plan", "--auto-approve", env=rotated)
    assert [path for method, path in requests if method != "GET"] == [f"/v1/apps/{app}/secrets/EXEC"]
    (kept,) = [each["fingerprint"] for each in sandbox.secrets(app) if each["name"] == "EXEC"]
    assert holds(kept, f"{VALUE}-rotated")


@pytest.mark.parametrize("verb", ["validate", "plan", "apply"])
def test_no_secret_takes_a_credential_of_ours(project: Project, app: str, verb: str) -> None:
    project.write("platform: {token_from: {env: SHOP_TOKEN}}\n", "reconcile.yaml")
    project.write(
        secret(app, "A", "env: SHOP_TOKEN")
        + secret(app, "B", "env: RECONCILE_STATE")
        + secret(app, "C", 'template: "x-${env:SHOP_TOKEN}"')
        + "---\napiVersion: reconciler/v1\nkind: ExtensionProvider\nmetadata: {name: db}\n"
        + "spec: {base_url: https://db.example.com, signing_secret_from: {env: RECONCILE_TOKEN}}\n"
    )
    approve = ["--auto-approve"] if verb == "apply" else []
    told = project.json(verb, *approve, env={"SHOP_TOKEN": "sandbox"}, code=1).json["diagnostics"]
    assert [each["code"] for each in told] == ["own-credential"] * 4


@pytest.mark.parametrize("named", ["age-key", "link", "variable", "state"])
def test_no_secret_takes_an_identity_of_ours_from_its_file(project: Project, app: str, named: str) -> None:
    project.write("AGE-SECRET-KEY-1\n", "age-key")
    (project.root / "manifests").mkdir(exist_ok=True)
    (project.root / "manifests/link").symlink_to("../age-key")
    settings = {
        "variable": "{}",
        "state": "state: {url: s3://team-state/shop, identity_from: {file: age-key}}",
    }.get(named, "secrets: {age_identity_from: {file: age-key}}")
    project.write(f"{settings}\n", "reconcile.yaml")
    project.write(
        secret(app, "A", f"file: {'link' if named == 'link' else '../age-key'}"), "manifests/a.yaml"
    )
    env = {"RECONCILE_AGE_IDENTITY_FILE": "age-key"} if named == "variable" else {}
    (told,) = project.json("validate", env=env, code=1).json["diagnostics"]
    assert told["code"] == "own-credential"


def test_what_must_not_run_does_not_and_its_secret_is_not_set(
    project: Project, sandbox: Sandbox, app: str, every_source: dict[str, str]
) -> None:
    project.write("manifests: [manifests]\n", "reconcile.yaml")
    with sandbox.recording() as requests:
        plan = project.json("plan", env=every_source)
        refused = project.run("apply", "--auto-approve", env=every_source, code=1)
    (told,) = plan.json["diagnostics"]
    assert (told["code"], told["severity"]) == ("secret-source", "warning")
    assert "`secrets: {exec: [sh]}`" in told["help"]
    assert "does not allow the program `sh`" in refused.err
    assert not [path for method, path in requests if method == "POST" and path.endswith("/EXEC")]
    assert not (project.root / "runs.txt").exists()
