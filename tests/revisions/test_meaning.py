"""`--changed-since` leaves nothing out that the branch changed: neither what is asked for nor where it is."""

from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.core.model import Address, Lifecycle, Resource
from reconciler.manifests.load import Loaded
from reconciler.manifests.meaning import changed
from tests.inprocess import Command, secret, volume
from tests.revisions.repository import commit, git
from tests.revisions.test_changed import branch, differing

IGNORE = "lifecycle: {ignore: [{field: snapshot_retention, reason: ours%s}]}\n"


@pytest.mark.parametrize("then", ["", IGNORE % ", until: '2030-01-01'"])
def test_a_field_that_is_no_more_left_alone_is_a_change(reconcile: Command, then: str) -> None:
    ours = volume(more=", snapshot_retention: 5")
    reconcile.write("manifests/data.yaml", ours + IGNORE % "")
    commit(reconcile.root)
    branch(reconcile)
    reconcile.write("manifests/data.yaml", "# moved down\n" + ours + IGNORE % "")
    assert differing(reconcile) == ([], [])
    reconcile.write("manifests/data.yaml", ours + then)
    assert differing(reconcile) == (["Volume/shop/data"], [])


FIELDS = set(Resource.__struct_fields__)
IN_PART = {"references", "ignores"}  # a part of them says where they stand: see the other tests


@pytest.mark.parametrize("name", sorted(FIELDS - IN_PART))
def test_whatever_a_resource_gets_to_say_is_compared(name: str) -> None:
    """A field that is added to Resource must be found here, among what says where or among what says what."""

    class Spec:
        def __init__(self, text: str = "") -> None:
            self.text = text

        def model_dump(self, *, exclude_unset: bool) -> str:
            return self.text

    where = {"file", "spans", "inherited", "base", "labels", "address"}
    given: dict[str, Any] = {"spec": Spec("other")}
    base = Resource(Address("Volume", "data", "shop"), Spec(), Lifecycle(), "a.yaml", {})
    other = replace(base, **{name: given.get(name, "something else")})
    found = changed(Loaded([base]), Loaded([replace(other, address=base.address)]))
    assert bool(found.differ) == (name not in where)


@pytest.mark.parametrize(
    "source",
    [
        "file: pw.txt",
        "age: pw.txt",
        "sops: {file: pw.txt, key: a.b}",
        "exec: [gpg, --decrypt, manifests/pw.txt]",
    ],
)
def test_a_secret_whose_file_holds_something_else_is_a_change(reconcile: Command, source: str) -> None:
    reconcile.write("manifests/pw.yaml", secret("PW", source))
    reconcile.write("manifests/pw.txt", "first-value")
    commit(reconcile.root)
    branch(reconcile)
    assert differing(reconcile) == ([], [])
    reconcile.write("manifests/pw.txt", "other-value")
    assert differing(reconcile) == (["Secret/shop/PW"], [])
    commit(reconcile.root)
    assert differing(reconcile, "--changed-since main --ref work") == (["Secret/shop/PW"], [])
    told = reconcile("build --changed-since main")
    assert "-value" not in told.out + told.err
    (reconcile.root / "manifests/pw.txt").unlink()
    assert differing(reconcile) == (["Secret/shop/PW"], [])


def test_the_key_that_a_provider_is_called_with_is_a_change_of_its_extensions(reconcile: Command) -> None:
    manifests = (
        "apiVersion: reconciler/v1\nkind: ExtensionProvider\nmetadata: {name: acme}\n"
        "spec: {base_url: 'https://acme.example', signing_secret_from: {env: A}, "
        "webhook_secret_from: {file: key.txt}}\n"
        "---\napiVersion: reconciler/v1\nkind: Extension\nmetadata: {name: db, app: shop}\n"
        "spec: {provider: acme, organization_id: o, organization_name: n, user_id: u, "
        "user_email: a@b.example, user_role: admin}\n"
    )
    reconcile.write("manifests/acme.yaml", manifests)
    reconcile.write("manifests/key.txt", "one")
    commit(reconcile.root)
    branch(reconcile)
    reconcile.write("manifests/key.txt", "two")
    assert differing(reconcile) == (["ExtensionProvider/acme"], ["Extension/shop/db"])


def test_a_file_that_git_does_not_hold_is_not_compared_and_one_that_it_now_holds_is(
    reconcile: Command,
) -> None:
    reconcile.write(".gitignore", "*.key\n")
    sources = secret("A", "file: a.key") + secret("B", "file: ../../b.txt") + secret("C", "file: c.txt")
    reconcile.write("manifests/pw.yaml", sources)
    reconcile.write("manifests/a.key", "one")
    reconcile.write("../b.txt", "one")
    commit(reconcile.root)
    branch(reconcile)
    reconcile.write("manifests/a.key", "two")
    reconcile.write("../b.txt", "two")
    assert differing(reconcile) == ([], [])
    reconcile.write("manifests/c.txt", "one")
    assert differing(reconcile) == (["Secret/shop/C"], [])
    git(reconcile.root, "add", "-f", "manifests/a.key")
    assert differing(reconcile) == (["Secret/shop/A", "Secret/shop/C"], [])


def test_a_file_and_its_manifest_that_move_together_change_nothing(reconcile: Command) -> None:
    reconcile.write("manifests/one/pw.yaml", secret("PW", "file: pw.txt"))
    reconcile.write("manifests/one/pw.txt", "first")
    reconcile.write("manifests/two/pw.txt", "second")
    commit(reconcile.root)
    branch(reconcile)
    (reconcile.root / "manifests/one").rename(reconcile.root / "manifests/three")
    assert differing(reconcile) == ([], [])


def test_the_same_path_beside_another_manifest_is_another_file(reconcile: Command) -> None:
    reconcile.write(".gitignore", "*.key\n")
    reconcile.write("manifests/one/pw.yaml", secret("PW", "file: pw.txt") + secret("KEY", "file: pw.key"))
    for folder in ("manifests/one", "manifests/two", "overlays/prod"):
        reconcile.write(f"{folder}/pw.txt", folder)
        reconcile.write(f"{folder}/pw.key", folder)
    reconcile.write("overlays/prod/a.yaml", "# nothing\n")
    commit(reconcile.root)
    branch(reconcile)
    there = reconcile.root / "manifests/one/pw.yaml"
    there.rename(reconcile.root / "manifests/two/pw.yaml")
    assert differing(reconcile) == (["Secret/shop/KEY", "Secret/shop/PW"], [])
    git(reconcile.root, "checkout", "-q", ".")
    (reconcile.root / "manifests/two/pw.yaml").unlink()
    reconcile.write("overlays/prod/a.yaml", "Secret/shop/PW: {spec: {value_from: {file: pw.txt}}}\n")
    assert differing(reconcile, "--changed-since main --env base") == ([], [])
    assert differing(reconcile, "--changed-since main --env prod") == (["Secret/shop/PW"], [])


def test_a_move_that_is_told_of_later_changes_what_it_moves(reconcile: Command) -> None:
    branch(reconcile)
    reconcile.write(
        "manifests/moved.yaml",
        "apiVersion: reconciler/v1\nkind: Moved\nmetadata: {name: m}\n"
        "spec: {from: Volume/shop/old, to: Volume/shop/data}\n",
    )
    assert differing(reconcile)[0] == ["Moved/m", "Volume/shop/data", "Volume/shop/old"]


def test_manifests_of_another_folder_by_then_are_found_by_the_settings_of_then(reconcile: Command) -> None:
    token = "platform: {token_from: {env: NOWHERE}}\n"
    reconcile.write("reconcile.yaml", f"{token}manifests: [manifests]\noverlays: overlays\nunknown: 1\n")
    reconcile.write("overlays/prod/a.yaml", "Volume/shop/logs: {spec: {size_gb: 50}}\n")
    commit(reconcile.root)
    branch(reconcile)
    (reconcile.root / "manifests").rename(reconcile.root / "deploy")
    (reconcile.root / "overlays").rename(reconcile.root / "stages")
    (reconcile.root / "deploy/logs.yaml").unlink()
    reconcile.write("stages/prod/a.yaml", "Volume/shop/data: {spec: {size_gb: 50}}\n")
    reconcile.write("reconcile.yaml", "manifests: [deploy]\noverlays: stages\n")
    assert differing(reconcile, "--changed-since main --env base") == (["Volume/shop/logs"], [])
    assert differing(reconcile, "--changed-since main --env prod")[0] == [
        "Volume/shop/data",
        "Volume/shop/logs",
    ]
    assert "base-has" not in reconcile("validate --changed-since main").err


def test_the_settings_that_a_branch_adds_do_not_hide_the_folder_that_it_left(reconcile: Command) -> None:
    branch(reconcile)
    (reconcile.root / "manifests").rename(reconcile.root / "deploy")
    (reconcile.root / "deploy/logs.yaml").unlink()
    reconcile.write("reconcile.yaml", "manifests: [deploy]\n")
    assert differing(reconcile) == (["Volume/shop/logs"], [])


def test_an_environment_that_only_settings_name_is_new_where_they_did_not(reconcile: Command) -> None:
    branch(reconcile)
    reconcile.write("reconcile.yaml", "environments: {prod: {}}\n")
    both = ["Volume/shop/data", "Volume/shop/logs"]
    assert differing(reconcile, "--changed-since main --env prod") == (both, [])


def test_a_base_without_manifests_where_they_are_looked_for_is_told_of(reconcile: Command) -> None:
    branch(reconcile)
    (reconcile.root / "manifests").rename(reconcile.root / "elsewhere")
    base = git(reconcile.root, "rev-parse", "main")[:12]
    told = reconcile("validate --changed-since main elsewhere").err
    assert (
        f"warning[base-has-none]: there is no file or directory `elsewhere` at {base}, where this left main"
        in told
    )
    assert "plan without --changed-since" in told
    reconcile.write("reconcile.yaml", "manifests: [nowhere]\n")
    commit(reconcile.root)
    (reconcile.root / "elsewhere").rename(reconcile.root / "nowhere")
    told = reconcile("validate --changed-since HEAD").err
    assert "there is no file or directory `nowhere`" in told


def test_settings_that_cannot_be_read_at_the_base_are_told_of(reconcile: Command) -> None:
    reconcile.write("reconcile.yaml", "manifests: [manifests\n")
    commit(reconcile.root)
    branch(reconcile)
    reconcile.write("reconcile.yaml", "manifests: [manifests]\n")
    assert differing(reconcile) == ([], [])
    told = reconcile("validate --changed-since main").err
    assert "`reconcile.yaml` does not say where the manifests are" in told


def test_the_first_thing_that_is_wrong_with_the_base_is_named(reconcile: Command) -> None:
    first = git(reconcile.root, "rev-parse", "HEAD")
    git(reconcile.root, "update-index", "--add", "--cacheinfo", f"160000,{first.strip()},manifests/shared")
    git(reconcile.root, "commit", "-q", "-m", "a submodule")
    told = reconcile("validate --changed-since HEAD").err
    assert "have errors: `manifests/shared` is a submodule: its files are in another repository" in told
    reconcile.write("manifests/data.yaml", volume().replace("10", "ten"))
    commit(reconcile.root)
    assert "have errors: manifests/data.yaml:5:" in reconcile("validate --changed-since HEAD", code=1).err


def test_a_manifest_that_was_not_valid_and_left_counts_as_changed(reconcile: Command) -> None:
    reconcile.write("manifests/data.yaml", volume().replace("10", "ten"))
    commit(reconcile.root)
    branch(reconcile)
    (reconcile.root / "manifests/data.yaml").unlink()
    assert differing(reconcile) == (["Volume/shop/data"], [])
