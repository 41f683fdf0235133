"""What is done with canaries about: everything that succeeds, and everything that goes wrong."""

import json
import os
import signal
from base64 import b64decode
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

from reconciler.reports.formats import formats_for
from tests.hosts.doubles import MERGE, NUMBER, REPOSITORY, Fault
from tests.hosts.doubles import serving as hosting
from tests.notify.receiver import receiving
from tests.reliability.canary.runs import (
    AGE,
    ENV,
    EXEC,
    FILE,
    HOOK_PATH,
    HOOK_SECRET,
    HOST,
    IDENTITY,
    LITERAL,
    OLD,
    PASSWORD,
    RECIPIENT,
    TOKEN,
    VALUES,
    Workshop,
)
from tests.reliability.canary.victim import BUGS

_REPORTS = [word for name in formats_for("plan") for word in ("--report", f"{name}=report.{name}")]
WRONG_TOKEN = VALUES["a wrong token"]
SECRETS = "/v1/apps/APP/secrets/*"

Scenario = Callable[[Workshop], None]


def everything_goes_well(shop: Workshop) -> None:
    shop.verb("validate", "--output", "json")
    shop.verb("plan", "--out", "saved.plan")
    shop.verb("-vv", "plan", "--rehearse", "--plan", "saved.plan", "--output", "json")
    shop.verb("plan", "--output", "json", "--detailed-exitcode")
    shop.verb("-vv", "apply", "--plan", "saved.plan")
    shop.verb("-vv", "apply", "--auto-approve", "--output", "json", env={"SHOP_PASSWORD": OLD})
    shop.verb("-v", "apply", "--auto-approve")
    shop.verb("-vv", "drift", "--output", "json")
    for run in json.loads(shop.verb("history", "--output", "json").out)["runs"]:
        shop.verb("bundle", run["id"], "--out", f"{run['id']}.bundle")
        shop.verb("history", "export", run["id"], "--out", f"incident-{run['id']}")
    shop.verb("show", f"Secret/{shop.app}/FROM_ENV", "--output", "json")
    shop.verb("-vv", "show", f"Secret/{shop.app}/FROM_FILE")
    shop.verb("state", "list", "--output", "json")
    shop.verb("state", "show", f"Secret/{shop.app}/FROM_TEMPLATE")
    shop.verb("state", "backup")
    shop.verb("schema")


def a_value_changes_by_hand_and_is_forgotten(shop: Workshop) -> None:
    shop.verb("apply", "--auto-approve")
    shop.platform.call("POST", f"/v1/apps/{shop.app}/secrets/FROM_ENV", {"value": LITERAL})
    shop.verb("-vv", "drift", "--output", "json")
    shop.verb("-vv", "plan")
    shop.verb("-vv", "apply", "--auto-approve")
    shop.verb("state", "forget", f"Secret/{shop.app}/FROM_ENV")
    shop.write(shop.volume())
    shop.verb("-vv", "apply", "--auto-approve", "--output", "json")


def nobody_approves(shop: Workshop) -> None:
    shop.verb("apply", stdin="n\n")
    shop.verb("apply", "--output", "json")
    shop.verb("aply", "--auto-approve")


# --- the platform answers badly ---


def _echo(value: str) -> dict[str, Any]:
    return {
        "error": f"bad value {value}",
        "message": value,
        "status": value,
        "details": {"value": value, value: [value]},
        "errors": {"detail": value},
        "value": value,
    }


def the_platform_repeats_the_value(status: int, body: Callable[[str], Any], value: str) -> Scenario:
    def scenario(shop: Workshop) -> None:
        for after in (False, True):
            shop.platform.fault(
                "POST",
                SECRETS.replace("APP", shop.app),
                "status",
                status=status,
                body=body(value),
                headers={"x-request-id": value.encode("ascii", "ignore").decode(), "x-echo": "1"},
                times=None,
                after=after,
            )
            output = ("--output", "json") if after else ()
            shop.verb("-vv", "apply", "--auto-approve", *output)
            shop.platform.clear_faults()

    return scenario


def a_digest_repeats_the_value(shop: Workshop) -> None:
    """Of its own secret: whole, within more, and a part."""
    shop.write(shop.secret("PASSWORD", "{env: SHOP_PASSWORD}"))
    for value in (ENV, OLD, FILE):
        told = {ENV: ENV, OLD: f"v1:{OLD}", FILE: FILE[: len(FILE) // 2]}[value]
        body = {"name": "PASSWORD", "version": 1, "digest": told}
        path = SECRETS.replace("APP", shop.app)
        shop.platform.fault("POST", path, "status", status=201, body=body, after=True)
        shop.verb("-vv", "apply", "--auto-approve", "--output", "json", env={"SHOP_PASSWORD": value})
        shop.verb("state", "show", f"Secret/{shop.app}/PASSWORD")


def the_answer_is_lost(action: str) -> Scenario:
    def scenario(shop: Workshop) -> None:
        shop.platform.fault("POST", SECRETS.replace("APP", shop.app), action, times=4)
        shop.verb("-vv", "apply", "--auto-approve")
        shop.platform.clear_faults()
        shop.verb("-vv", "plan", "--output", "json")
        shop.verb("-vv", "apply", "--auto-approve")

    return scenario


def a_list_of_secrets_holds_values(shop: Workshop) -> None:
    shop.verb("apply", "--auto-approve")
    item = {"name": "FROM_ENV", "digest": "x", "value": ENV, "created_at": ENV, "more": {"value": FILE}}
    for body in ({"secrets": [item]}, {"secrets": item}, [item], {"secrets": [ENV]}, ENV):
        path = f"/v1/apps/{shop.app}/secrets"
        shop.platform.fault("GET", path, "status", status=200, body=body, times=None)
        shop.verb("-vv", "plan", "--output", "json")
        shop.platform.clear_faults()
    shop.platform.fault("GET", f"/v1/apps/{shop.app}/secrets", "html", status=502, times=None)
    shop.verb("-vv", "drift")


def a_list_of_secrets_fails_with_a_value(shop: Workshop) -> None:
    shop.verb("apply", "--auto-approve")
    for status in (400, 401, 500):
        shop.platform.fault(
            "GET", f"/v1/apps/{shop.app}/secrets", "status", status=status, body=_echo(ENV), times=None
        )
        shop.verb("-vv", "plan", "--output", "json")
        shop.platform.clear_faults()


def the_platform_repeats_the_token(shop: Workshop) -> None:
    shop.write(shop.volume())
    volumes = f"/v1/apps/{shop.app}/volumes"
    for method, status in (("GET", 401), ("GET", 500), ("POST", 422), ("POST", 503), ("POST", 401)):
        shop.platform.fault(
            method,
            volumes,
            "status",
            status=status,
            body=_echo(TOKEN),
            headers={"x-request-id": TOKEN},
            times=None,
        )
        verb = ("plan",) if method == "GET" else ("apply", "--auto-approve")
        shop.verb("-vv", *verb)
        shop.platform.clear_faults()
    shop.verb("-vv", "plan", "--output", "json")


def the_token_is_wrong(shop: Workshop) -> None:
    for token in (WRONG_TOKEN, f"{WRONG_TOKEN} {WRONG_TOKEN}", f"{WRONG_TOKEN}\n", f"{WRONG_TOKEN}é", ""):
        shop.verb("-vv", "apply", "--auto-approve", env={"RECONCILE_TOKEN": token})
    shop.verb("-vv", "plan", "--output", "json", env={"RECONCILE_TOKEN": WRONG_TOKEN})


def a_git_host_repeats_its_token(shop: Workshop) -> None:
    shop.write(shop.volume())
    shop.verb("plan", "--report", "json=plan.json")
    with hosting("github", token=HOST) as world:
        world.date = format_datetime(datetime.now(UTC), usegmt=True)
        ci = {
            "GITHUB_ACTIONS": "true",
            "GITHUB_API_URL": world.api,
            "GITHUB_REPOSITORY": REPOSITORY,
            "GITHUB_REF": f"refs/pull/{NUMBER}/merge",
            "GITHUB_SHA": MERGE,
        }
        for status in (301, 401, 403, 422, 200):
            for method, path in (("GET", "/comments"), ("POST", "/comments"), ("POST", "/statuses")):
                world.faults = [Fault(method, path, status, {"x-request-id": HOST}, _echo(HOST))]
                del world.comments[:]
                shop.verb("-vv", "comment", "plan.json", env=ci)
        world.faults.clear()
        shop.verb("-vv", "comment", "plan.json", "--output", "json", env=ci)
        address = world.api.replace("://", f"://{HOST}@")
        shop.verb("-vv", "comment", "plan.json", env={**ci, "GITHUB_API_URL": address})
        server = {"GITHUB_SERVER_URL": f"https://{HOST}@ci.example", "GITHUB_RUN_ID": "1"}
        shop.verb("-vv", "comment", "plan.json", env=ci | server)
        shop.verb("-vv", "comment", "plan.json", env={**ci, "GITHUB_TOKEN": f"{HOST}\n{HOST}"})
        shop.verb("-vv", "comment", "plan.json", env={**ci, "GITHUB_REF": ""})
        assert world.comments


# --- what people write ---

_LITERALS = (
    "{value_from: {env: 'LITERAL'}}",
    "{value: 'LITERAL'}",
    "{value_from: 'LITERAL'}",
    "{value_from: {env: SHOP_PASSWORD, value: 'LITERAL'}}",
    "{value_from: {template: 'LITERAL${env:'}}",
    "{value_from: {template: 'LITERAL${Volume/x/none:id}'}}",
    "{value_from: [LITERAL]}",
    "{value_from: {env: 'LITERAL'}",
    "{value_from: {env: 'LITERAL}}",
    "{value_from: {file: 'LITERAL'}, data: {A: 'LITERAL'}}",
    "!!str 'LITERAL'",
    "'LITERAL'",
)


def _bad_secret(shop: Workshop, spec: str) -> str:
    head = f"apiVersion: reconciler/v1\nkind: Secret\nmetadata: {{name: BAD, app: {shop.app}}}\n"
    return head + "spec: " + spec.replace("'LITERAL", "'" + LITERAL) + "\n"


def a_value_stands_in_a_manifest(shop: Workshop) -> None:
    for number, spec in enumerate(_LITERALS):
        shop.write(shop.volume() + "---\n" + _bad_secret(shop, spec), holds_a_value=True)
        verb = (("validate",), ("-vv", "plan", "--output", "json"), ("-vv", "apply", "--auto-approve"))[
            number % 3
        ]
        if "Volume/x/none" in spec or "file:" in spec:
            verb = ("validate", "--output", "json")
        shop.verb(*verb)
    shop.verb("validate", "-", stdin=shop.secret("A", f"{{value: '{LITERAL}'}}"))


_BESIDE = (
    "metadata: {name: NAME, app: APP, labels: {password: 'LITERAL'}}\nspec: {size_gb: 3}\n",
    "metadata: {name: NAME, app: APP, labels: {String_Data: 'LITERAL'}}\nspec: {size_gb: 3}\n",
    "metadata: {name: NAME, app: APP, labels: {db: 'postgres://me:LITERAL@db'}}\nspec: {size_gb: 3}\n",
    "metadata: {name: NAME, app: APP}\nspec: {size_gb: 3, admin: 'LITERAL'}\n",
    "metadata: {name: NAME, app: APP}\nspec: {size_gb: 3}  # LITERAL\n",
)


def values_stand_beside_manifests(shop: Workshop) -> None:
    """In many files at once, also where no kind expects a value: nothing of any manifest is kept on disk."""
    folder = shop.root / "manifests"
    (folder / "many.yaml").write_text("".join(shop.volume(f"v{number}") for number in range(500)))
    head = "apiVersion: reconciler/v1\nkind: Volume\n"
    texts = [_bad_secret(shop, spec) for spec in _LITERALS]
    texts += [(head + each).replace("LITERAL", HOOK_PATH).replace("APP", shop.app) for each in _BESIDE]
    for number, text in enumerate(texts):
        for name, content in (("only", text), ("beside", f"{shop.volume(f'w{number}')}---\n{text}")):
            path = folder / f"{name}-{number}.yaml"
            path.write_text(content.replace("NAME", path.stem), encoding="utf-8")
            shop.sources.add(path)
    for arguments in (("validate",), ("-vv", "plan", "--output", "json"), ("validate", *_REPORTS)):
        shop.verb(*arguments)
    assert not (shop.temporary / "caches").exists()


def every_format_shows_it(shop: Workshop) -> None:
    """When all goes well, when the platform repeats a value, and of drift and of broken files."""
    shop.write(shop.every_source())
    shop.verb("plan", "--with-exec", *_REPORTS)
    path = SECRETS.replace("APP", shop.app)
    shop.platform.fault("POST", path, "status", status=422, body=_echo(AGE), times=None, after=False)
    shop.verb("apply", "--auto-approve", *_REPORTS)
    shop.platform.clear_faults()
    shop.verb("apply", "--auto-approve", *_REPORTS)
    shop.platform.call("POST", f"/v1/apps/{shop.app}/secrets/AGE", {"value": LITERAL})
    shop.verb("drift", *_REPORTS)
    for spec in ("{value: 'LITERAL'}", "{value_from: {template: 'LITERAL${env:'}}", "'LITERAL'"):
        shop.write(_bad_secret(shop, spec), holds_a_value=True)
        shop.verb("validate", *_REPORTS)


def a_value_stands_in_the_settings(shop: Workshop) -> None:
    for line in (
        f"platform: {{token: '{PASSWORD}'}}",
        f"platform:\n  token_from: '{PASSWORD}'",
        f"platform: {{token_from: {{env: A, value: '{PASSWORD}'}}}}",
        f"platform: {{base_url: 'https://user:{PASSWORD}@platform.invalid'}}",
        f"state: 'postgresql://user:{PASSWORD}@db.invalid/state'",
        f"state: ['postgresql://user:{PASSWORD}@db.invalid/state']",
        f"token: '{PASSWORD}'\n  broken: [",
    ):
        shop.settings(f"{line}\n", holds_a_value=True)
        shop.verb("-vv", "plan", env={"RECONCILE_BASE_URL": ""} if "base_url" in line else {})
    shop.verb("-vv", "plan", "--output", "json")


def a_password_stands_in_an_address(shop: Workshop) -> None:
    encoded = PASSWORD.replace("/", "").replace("?", "").replace("\\", "")
    for env in (
        {"RECONCILE_BASE_URL": f"https://user:{PASSWORD}@platform.invalid"},
        {"RECONCILE_BASE_URL": f"https://platform.invalid/?token={PASSWORD}"},
        {"RECONCILE_STATE": f"postgresql://user:{PASSWORD}@db.invalid/state"},
        {"RECONCILE_STATE": f"s3://key:{PASSWORD}@bucket"},
        {
            "RECONCILE_BASE_URL": "https://platform.invalid",
            "HTTPS_PROXY": f"http://user:{encoded}@127.0.0.1:9",
            "https_proxy": f"http://user:{encoded}@127.0.0.1:9",
        },
        {
            "RECONCILE_BASE_URL": "https://platform.invalid",
            "HTTPS_PROXY": f"socks5://u:{encoded}@127.0.0.1:9",
        },
    ):
        shop.verb("-vv", "plan", env=env)


def a_source_cannot_be_read(shop: Workshop) -> None:
    for content in (f"{FILE}".encode() + b"\xff\n", FILE.encode() * 50_000, b"", FILE.encode("utf-16")):
        shop.source("password.txt", content)
        shop.verb("-vv", "plan", "--output", "json")
        shop.verb("-vv", "apply", "--auto-approve")
    (shop.root / "manifests" / "password.txt").unlink()
    shop.verb("-vv", "apply", "--auto-approve")
    shop.verb("-vv", "plan", env={"SHOP_PASSWORD": ""})
    not_utf8 = os.fsdecode(ENV.encode() + b"\xff")
    shop.verb("-vv", "apply", "--auto-approve", env={"SHOP_PASSWORD": not_utf8})


def every_source_is_used(shop: Workshop) -> None:
    shop.write(shop.every_source())
    shop.verb("-vv", "plan", "--with-exec", "--out", "saved.plan")
    shop.verb("-vv", "apply", "--plan", "saved.plan", "--output", "json")
    shop.verb("-vv", "secret", "fingerprint")
    shop.verb("secret", "encrypt", "--to", RECIPIENT, stdin=AGE)


def every_source_fails(shop: Workshop) -> None:
    shop.write(shop.every_source())
    manifests = shop.root / "manifests"
    shop.verb("-vv", "apply", "--auto-approve", env={"RECONCILE_AGE_IDENTITY": IDENTITY[:-2] + "QQ"})
    no_exec = {"SOPS_AGE_KEY": "any", "RECONCILE_NO_EXEC": "1"}
    shop.verb("-vv", "plan", "--with-exec", "--output", "json", env=no_exec)
    shop.verb("secret", "encrypt", "--to", IDENTITY.lower(), stdin=AGE)
    plain = b64decode((manifests / "all.enc").read_bytes())
    for content in (plain, plain[:-10], b"\xff" + plain):
        shop.source("all.enc", content)
        shop.source("value.age", AGE)
        shop.source("exec.txt", EXEC.encode() + b"\xff")
        shop.verb("-vv", "apply", "--auto-approve", "--output", "json")
        shop.verb("-vv", "secret", "fingerprint", "--output", "json")
    failing = "cd manifests; cat exec.txt said.txt; cat said.txt >&2; exit 9"
    shop.write(shop.secret("EXEC", f'{{exec: [sh, -c, "{failing}"]}}'))
    shop.verb("-vv", "apply", "--auto-approve")
    shop.source("main.key", IDENTITY)
    shop.settings("secrets: {age_identity_from: {file: manifests/main.key}, exec: [7]}\n")
    shop.verb("-vv", "plan")
    shop.settings(f"secrets: {{age_identity_from: '{IDENTITY}'}}\n", holds_a_value=True)
    shop.verb("-vv", "plan")


def a_bug_strikes_while_decrypting(name: str) -> Scenario:
    def scenario(shop: Workshop) -> None:
        shop.write(shop.every_source())
        shop.verb("-vv", "apply", "--auto-approve", env={"CANARY_BUG": name})

    return scenario


def a_saved_plan_is_damaged(shop: Workshop) -> None:
    shop.verb("plan", "--out", "saved.plan")
    saved = shop.root / "saved.plan"
    saved.write_bytes(saved.read_bytes()[:-40])
    shop.verb("-vv", "apply", "--plan", "saved.plan")
    shop.verb("plan", "--out", "saved.plan")
    saved.write_bytes(saved.read_bytes().replace(b'"env"', b'"none"'))
    shop.verb("-vv", "apply", "--plan", "saved.plan", "--output", "json")


# --- the store, the process ---


def the_store_fails(shop: Workshop) -> None:
    nowhere = {"RECONCILE_STATE": "sqlite:/proc/none/state.db"}
    shop.verb("-vv", "state", "init", env=nowhere)
    shop.verb("-vv", "apply", "--auto-approve", env=nowhere)
    (shop.root / "state.db").mkdir()
    shop.verb("-vv", "apply", "--auto-approve", env={"RECONCILE_STATE": "sqlite:state.db"})
    for kilobytes in (1, 24, 33, 60, 90):
        env = {"RECONCILE_STATE": f"sqlite:full{kilobytes}.db", "CANARY_FILE_BYTES": str(kilobytes * 1024)}
        shop.verb("-vv", "state", "init", env=env)
        shop.verb("-vv", "apply", "--auto-approve", env=env)
    (shop.root / ".reconcile").mkdir(mode=0o700, exist_ok=True)
    (shop.root / ".reconcile" / "state.db").write_bytes(b"SQLite format 3\0" + b"\0" * 5000)
    shop.verb("-vv", "plan")


def it_is_killed(shop: Workshop) -> None:
    # A new value is set in two secrets, whatever the run before has brought about: one may pass.
    for passing, value in ((0, ENV), (1, OLD), (1, FILE)):
        _hold_an_answer(shop, passing)
        shop.struck(signal.SIGKILL, env={"SHOP_PASSWORD": value})
        shop.platform.clear_faults()
    shop.verb("-vv", "plan", "--output", "json", env={"SHOP_PASSWORD": OLD})
    shop.verb("-vv", "apply", "--auto-approve")


def it_is_interrupted(shop: Workshop) -> None:
    for value, numbers in (
        (ENV, (signal.SIGINT, signal.SIGINT)),
        (OLD, (signal.SIGTERM, signal.SIGTERM)),
        (FILE, (signal.SIGINT,)),
        (ENV, (signal.SIGABRT,)),  # with a dump of all stacks by faulthandler
        (OLD, (signal.SIGSEGV,)),
    ):
        _hold_an_answer(shop, 0)
        shop.struck(*numbers, env={"SHOP_PASSWORD": value})
        shop.platform.clear_faults()


def _hold_an_answer(shop: Workshop, passing: int) -> None:
    """The answer about one secret comes late; `passing` others come in time."""
    path = SECRETS.replace("APP", shop.app)
    for _ in range(passing):
        shop.platform.fault("POST", path, "delay", delay_s=0)
    shop.platform.fault("POST", path, "delay", delay_s=5)


def somebody_is_notified(shop: Workshop) -> None:
    """Of what repeats values; all that was received is looked at, too."""
    with receiving() as receiver:
        hooks = "".join(
            f"  - {{on: [drift, failed, owed], format: {format}, url_from: {{env: HOOK_URL}}{more}}}\n"
            for format, more in (
                ("slack", ""),
                ("json", ", secret_from: {env: HOOK_SECRET}"),
                ("cloudevents", ", secret_from: {env: HOOK_SECRET}"),
            )
        )
        shop.settings(f"notify:\n{hooks}")
        shop.env |= {"HOOK_URL": f"{receiver.url}/{HOOK_PATH}", "HOOK_SECRET": HOOK_SECRET}
        path = SECRETS.replace("APP", shop.app)
        shop.platform.fault("POST", path, "status", status=422, body=_echo(ENV), times=None)
        shop.verb("-vv", "apply", "--auto-approve")
        shop.platform.clear_faults()
        receiver.answers[:] = [500, 302, 404]
        shop.verb("-vv", "apply", "--auto-approve", env={"RECONCILE_TOKEN": WRONG_TOKEN})
        shop.verb("-vv", "apply", "--auto-approve")
        shop.platform.call("POST", f"/v1/apps/{shop.app}/secrets/FROM_ENV", {"value": LITERAL})
        shop.verb("-vv", "drift", "--output", "json")
        shop.verb("-vv", "drift", env={"HOOK_SECRET": PASSWORD})
        shop.verb("-vv", "drift", env={"HOOK_URL": f"https://user:{PASSWORD}@127.0.0.1:1/{HOOK_PATH}"})
        events = {got.json.get("type") for got in receiver.got}
        assert {"reconcile.failed", "reconcile.drift"} <= events
        (shop.root / "received").write_bytes(b"\n".join(got.body for got in receiver.got))
        shop.verb("validate")  # after each verb, all files are looked at


def a_bug_strikes(name: str) -> Scenario:
    def scenario(shop: Workshop) -> None:
        for python in ((), ("-X", "dev", "-W", "ignore")):
            shop.verb("-vv", "apply", "--auto-approve", env={"CANARY_BUG": name}, python=python)

    return scenario


SCENARIOS: dict[str, Scenario] = {
    "everything goes well": everything_goes_well,
    "a value changes by hand": a_value_changes_by_hand_and_is_forgotten,
    "nobody approves": nobody_approves,
    "422 repeats the value": the_platform_repeats_the_value(422, _echo, ENV),
    "400 repeats the value": the_platform_repeats_the_value(400, lambda value: value, ENV),
    "500 repeats the value": the_platform_repeats_the_value(500, _echo, ENV),
    "503 repeats the value": the_platform_repeats_the_value(503, lambda value: [value], FILE),
    "200 repeats the value": the_platform_repeats_the_value(200, lambda value: {"name": value}, ENV),
    "201 repeats the value": the_platform_repeats_the_value(201, lambda value: {"Version": value}, FILE),
    "a digest repeats the value": a_digest_repeats_the_value,
    "401 repeats the value": the_platform_repeats_the_value(401, _echo, ENV),
    "404 repeats the value": the_platform_repeats_the_value(404, _echo, ENV),
    "the answer never came": the_answer_is_lost("drop_before"),
    "the answer is lost": the_answer_is_lost("drop_after"),
    "the answer is cut off": the_answer_is_lost("truncate"),
    "the answer is a web page": the_answer_is_lost("html"),
    "a list of secrets holds values": a_list_of_secrets_holds_values,
    "a list of secrets fails with a value": a_list_of_secrets_fails_with_a_value,
    "the platform repeats the token": the_platform_repeats_the_token,
    "the token is wrong": the_token_is_wrong,
    "a git host repeats its token": a_git_host_repeats_its_token,
    "a value stands in a manifest": a_value_stands_in_a_manifest,
    "values stand beside manifests": values_stand_beside_manifests,
    "a value stands in the settings": a_value_stands_in_the_settings,
    "a password stands in an address": a_password_stands_in_an_address,
    "a source cannot be read": a_source_cannot_be_read,
    "every format shows it": every_format_shows_it,
    "a saved plan is damaged": a_saved_plan_is_damaged,
    "every source is used": every_source_is_used,
    "every source fails": every_source_fails,
    "a bug strikes in decrypt, of every source": a_bug_strikes_while_decrypting("decrypt"),
    "a bug strikes in value, of every source": a_bug_strikes_while_decrypting("value"),
    "the store fails": the_store_fails,
    "somebody is notified": somebody_is_notified,
    "it is killed": it_is_killed,
    "it is interrupted": it_is_interrupted,
    **{f"a bug strikes in {name}": a_bug_strikes(name) for name in BUGS},
}
QUIET = ("everything goes well", "a value changes by hand")  # nothing is ordered that repeats a value
