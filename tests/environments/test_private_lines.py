"""Lines that may hold a secret are never shown, nor a private key in the place of a file."""

import pytest

from tests.inprocess import Command, secret, volume

CLUSTER = """\
---
apiVersion: reconciler/v1
kind: PostgresCluster
metadata: {name: orders}
spec: {region: ams, org_slug: personal, plan: basic, disk_size_gb: 10, name: orders}
"""
PROVIDER = """\
---
apiVersion: reconciler/v1
kind: ExtensionProvider
metadata: {name: cache}
spec: {base_url: "https://cache.example", signing_secret_from: {env: KEY}}
"""
BAD_VOLUME = "Volume/shop/data: {spec: {bad: 1}}"
LITERAL = "Secret/shop/PW: {spec: {value: hunter2}}"

SEVERAL_KINDS = {
    "text": '"*/shop/*":\n  spec: hunter2\n',
    "text in quotes": '"*/shop/*": {\n  spec: "hunter2"}\n',
    "value": '"*/shop/*":\n  spec: {value: hunter2}\n',
    "value in a block": '"*/shop/*":\n  spec:\n    value: hunter2\n',
    "text for the source": '"*/shop/*":\n  spec: {value_from: hunter2}\n',
    "value for the source": '"*/shop/*":\n  spec: {value_from: {value: hunter2}}\n',
    "a name alone": '"*/shop/*":\n  spec: {value_from: {hunter2}}\n',
    "a list": '"*/shop/*":\n  spec:\n    region: [hunter2]\n',
    "what YAML misreads": '"*/shop/*":\n  spec: {region: 0o7, count: 0x1F, value: hunter2}\n',
    "a part of the kind": '"?[!x]*/*":\n  spec: {value: hunter2}\n"*e*/*/*":\n  spec: {value: hunter2}\n',
    "a provider": '"*/*":\n  spec: {signing_secret_from: hunter2}\n',
    "too high": '"*/shop/*": {value: hunter2}\n',
    "in metadata": '"*/shop/*":\n  metadata: {value: hunter2}\n',
    "beside labels": '"*/shop/*":\n  metadata: {labels: 1, value: hunter2}\n',
    "beside a lifecycle": '"*/shop/*": {lifecycle: {x: 1}, spec: {value: hunter2}}\n',
    "text for metadata": '"*/shop/*":\n  metadata: hunter2\n',
    "an alias": 'Volume/shop/data: &a {spec: {value: hunter2}}\nSecret/shop/PW: *a\n',
    "a merge": 'Volume/shop/data:\n  spec: &a {value: hunter2}\nSecret/shop/PW: {spec: {<<: *a}}\n',
}  # fmt: skip
ONE_LINE = {
    "another entry before": f"{{{BAD_VOLUME}, {LITERAL}}}\n",
    "another entry after": f"{{{LITERAL}, {BAD_VOLUME}}}\n",
    "JSON": '{"Volume/shop/data": {"spec": {"bad": 1}}, "Secret/shop/PW": {"spec": {"value": "hunter2"}}}\n',
    "JSON in lines": '{\n"Secret/shop/PW": {"spec": {"value": "hunter2"}}, "Volume/shop/data":\n {"x": 1}}\n',
    "a text over two lines": f'{{Secret/shop/PW: {{spec: {{value: "a\n  hunter2"}}}}, {BAD_VOLUME}}}\n',
    "a misspelt kind": f"{{{BAD_VOLUME}, Sceret/shop/PW: {{spec: {{value: hunter2}}}}}}\n",
    "text for an entry": f"{{{BAD_VOLUME}, Secret/shop/PW: hunter2}}\n",
    "a removal of nothing": f"{{Volume/shop/data: {{spec: {{bad: null}}}}, {LITERAL}}}\n",
    "a patch twice": f"Volume/shop/data: {{spec: {{size_gb: 20}}}}\n---\n"
    f"{{Volume/shop/data: {{spec: {{size_gb: 30}}}}, {LITERAL}}}\n",
    "no match": f"{{Volume/shop/dada: {{spec: {{size_gb: 30}}}}, {LITERAL}}}\n",
    "no address": f"{{data: {{spec: {{size_gb: 30}}}}, {LITERAL}}}\n",
    "what cannot be patched": f"{{Volume/shop/data: {{kind: x}}, {LITERAL}}}\n",
    "what YAML misreads": f"{{Volume/shop/data: {{spec: {{size_gb: 017}}}}, {LITERAL}}}\n",
}
NOT_READ = {
    "a key twice": '"*/*":\n  spec: {signing_secret_from: hunter2, signing_secret_from: hunter2}\n',
    "a bracket too many": '"???????Provider/*": {spec: {signing_secret_from: hunter2}]}\n',
    "of a misspelt kind": "ExtensionPovider/cache: {spec: {signing_secret_from: hunter2}]}\n",
}
OVERLAYS = {
    f"{group}: {name}": text
    for group, texts in (("several kinds", SEVERAL_KINDS), ("one line", ONE_LINE), ("not read", NOT_READ))
    for name, text in texts.items()
}


def write_shop(reconcile: Command, overlay: str) -> None:
    reconcile.write("manifests/volume.yaml", volume())
    reconcile.write("manifests/others.yaml", CLUSTER + PROVIDER)
    reconcile.write("manifests/secret.yaml", secret("PW", "env: X"))
    reconcile.write("overlays/prod/a.yaml", overlay)


@pytest.mark.parametrize("overlay", OVERLAYS.values(), ids=OVERLAYS.keys())
def test_what_may_be_a_secret_is_never_repeated(reconcile: Command, overlay: str) -> None:
    write_shop(reconcile, overlay)
    for verb in ("validate", "validate --output json", "build", "plan --sandbox"):
        told = reconcile(f"{verb} --env prod", code=1)
        assert "hunter2" not in told.out + told.err
        if verb == "validate":
            assert "(not shown: it may hold a secret)" in told.err


@pytest.mark.slow
def test_a_plan_does_not_show_such_a_line_either(reconcile: Command) -> None:
    write_shop(reconcile, "Volume/shop/data: {spec: {size_gb: 10}}\n")
    reconcile("apply --sandbox --env prod --auto-approve manifests/volume.yaml")
    reconcile.write("manifests/secret.yaml", secret("PW", "exec: [x]"))
    source = "Secret/shop/PW: {spec: {value_from: {exec: [x, hunter2]}}}"
    reconcile.write("overlays/prod/a.yaml", f"{{Volume/shop/data: {{spec: {{size_gb: 9}}}}, {source}}}\n")
    told = reconcile("plan --sandbox --env prod", code=1)
    assert "error[volume-shrink]" in told.err
    assert "(not shown: it may hold a secret)" in told.err
    assert "hunter2" not in told.out + told.err


def test_lines_that_hold_no_secret_are_shown(reconcile: Command) -> None:
    lines = ("Volume/shop/gone:", "spec: {size_gb: x}", "metadata: {app: 5}")
    write_shop(
        reconcile,
        f"""\
{lines[0]}
  spec: {{size_gb: 5}}
Secret/shop/PW:
  metadata: {{labels: {{a: b}}}}
  spec:
    value_from: {{env: Y}}
Volume/shop/data:
  spec: {{bad: 1}}
"V*/*/*":
  {lines[1]}
---
Secret/shop/PW:
  lifecycle: {{deletion: retain}}
Volume/shop/data:
  {lines[2]}
""",
    )
    told = reconcile("validate --env prod", code=1).err
    assert "not shown" not in told
    for line in lines:
        assert f" {line}\n" in told
    assert " spec: {bad: …\n" in told  # the value of an unknown field may be anything


KEY = "AGE-SECRET-KEY-1QQQQQQQQQQQQQQQQQQQQQQQQ"


@pytest.mark.parametrize("source", ["age", "file"])
@pytest.mark.parametrize("verb", ["validate", "plan --sandbox"])
def test_a_private_key_is_refused_and_never_shown(reconcile: Command, source: str, verb: str) -> None:
    reconcile.write("manifests/a.yaml", secret("API_KEY", f"{source}: {KEY}"))
    ended = reconcile(verb, code=1)
    assert "error[secret-literal]" in ended.err
    assert KEY[:20] not in ended.out + ended.err
