"""`--ref`: manifests and overlays as a commit has them."""

import os
import shutil
import stat
from pathlib import Path

import pytest

from reconciler.core.errors import ReconcilerError
from reconciler.manifests.revisions.git import _ALWAYS, find_repository
from tests.inprocess import Command, volume
from tests.revisions.repository import commit, git


def test_manifests_are_read_from_the_commit_and_not_from_the_working_tree(reconcile: Command) -> None:
    git(reconcile.root, "tag", "v1")
    reconcile.write("manifests/data.yaml", volume(size_gb=20))
    (reconcile.root / "manifests/logs.yaml").unlink()
    reconcile.write("manifests/new.yaml", volume("new"))
    assert "size_gb: 20" in reconcile("build").out
    at = reconcile("build --ref v1").out
    assert "size_gb: 10" in at
    assert "name: logs" in at
    assert "name: new" not in at
    assert git(reconcile.root, "status", "--porcelain").splitlines() == [
        "M manifests/data.yaml",
        " D manifests/logs.yaml",
        "?? manifests/new.yaml",
    ]


def test_excerpts_and_positions_are_those_of_the_commit(reconcile: Command) -> None:
    reconcile.write("manifests/data.yaml", volume().replace("size_gb: 10", 'size_gb: "10"'))
    commit(reconcile.root)
    reconcile.write("manifests/data.yaml", "# nothing\n")
    told = reconcile("validate --ref HEAD", code=1).err
    assert "--> manifests/data.yaml:5:30" in told
    assert ' 5 | spec: {region: ams, size_gb: "10"}' in told


def test_validate_looks_for_files_of_secrets_in_the_commit_too(reconcile: Command) -> None:
    for name in ("kept", "gone"):
        reconcile.write(
            f"manifests/{name}.yaml",
            f"apiVersion: reconciler/v1\nkind: Secret\nmetadata: {{name: {name.upper()}, app: shop}}\n"
            f"spec: {{value_from: {{age: {name}.age}}}}\n",
        )
    reconcile.write("manifests/kept.age", "encrypted")
    commit(reconcile.root)
    (reconcile.root / "manifests/kept.age").unlink()
    told = reconcile("validate --ref HEAD").err
    assert told.count("source-missing") == 1
    assert "`manifests/gone.age`, but there is no such file here, nor at HEAD" in told


def test_overlays_are_read_from_the_commit_too(reconcile: Command) -> None:
    reconcile.write("overlays/prod/a.yaml", "Volume/shop/data: {spec: {size_gb: 30}}\n")
    assert "there is no environment `prod` at HEAD" in reconcile("build --env prod --ref HEAD", code=1).err
    commit(reconcile.root)
    shutil.rmtree(reconcile.root / "overlays")
    assert "size_gb: 30" in reconcile("build --env prod --ref HEAD").out
    assert "there is no environment `prod`" in reconcile("build --env prod", code=1).err


def test_a_project_in_a_folder_of_the_repository_is_found_from_below_it(reconcile: Command) -> None:
    reconcile.write("infra/reconcile.yaml", "manifests: [yaml]\n")
    reconcile.write("infra/yaml/deep/a.yaml", volume("deep"))
    commit(reconcile.root)
    reconcile.write("infra/yaml/deep/a.yaml", volume("other"))
    for place, path in (
        ("infra", ""),
        ("infra/yaml", ""),
        ("infra/yaml", "deep"),
        ("infra", "yaml/deep/a.yaml"),
    ):
        built = reconcile(f"build --ref HEAD {path}", cwd=place).out
        assert "# from yaml/deep/a.yaml" in built
        assert "name: deep" in built
    assert "name: logs" in reconcile("build --ref HEAD ../manifests", cwd="infra").out


@pytest.mark.parametrize("place", [".", "manifests"])
def test_files_outside_of_the_repository_are_refused(reconcile: Command, place: str) -> None:
    told = reconcile("validate --ref HEAD ../../elsewhere", code=1, cwd="manifests").err
    assert "is outside the git repository" in told
    assert "is outside the git repository" in reconcile("validate --ref HEAD /etc", code=1, cwd=place).err


def test_names_of_any_characters_are_read(reconcile: Command) -> None:
    reconcile.write('manifests/zürich "1"\n\t☃.yaml', volume("snow"))
    commit(reconcile.root)
    shutil.rmtree(reconcile.root / "manifests")
    built = reconcile("build --ref HEAD").out
    assert "name: snow" in built
    assert '# from manifests/zürich "1"\\x0A\t☃.yaml' in built


def test_hidden_files_settings_and_other_files_are_passed_over_as_on_disk(reconcile: Command) -> None:
    for name in (".hidden.yaml", ".git-like/a.yaml", "sub/reconcile.yaml", "notes.txt"):
        reconcile.write(f"manifests/{name}", "neither: manifest\n")
    reconcile.write("manifests/sub/b.yml", volume("b"))
    reconcile.write("overlays/prod/a.yaml", "Volume/shop/data: {spec: {size_gb: 30}}\n")
    commit(reconcile.root)
    for path in ("", ".", "manifests manifests/data.yaml"):
        assert reconcile(f"validate --ref HEAD {path}").out == reconcile(f"validate {path}").out
        assert reconcile(f"build --ref HEAD {path}").out == reconcile(f"build {path}").out


def test_symbolic_links_lead_to_files_of_the_same_commit(reconcile: Command) -> None:
    reconcile.write("manifests/.base/linked.txt", volume("linked"))
    reconcile.write("outside.yaml", volume("outside"))
    links = {"a.yaml": ".base/linked.txt", "again.yaml": "data.yaml", "folder": "../other"}
    for name, target in links.items():
        (reconcile.root / "manifests" / name).symlink_to(target)
    commit(reconcile.root)
    assert reconcile("build --ref HEAD").out == reconcile("build").out
    (reconcile.root / "manifests/out.yaml").symlink_to("../outside.yaml")
    (reconcile.root / "manifests/round.yaml").symlink_to("round.yaml")
    (reconcile.root / "manifests/root.yaml").symlink_to("/etc/passwd")
    (reconcile.root / "manifests/lost.yaml").symlink_to("nowhere.yaml")
    commit(reconcile.root)
    told = reconcile("validate --ref HEAD", code=1).err
    for name in ("out", "round", "root"):
        assert f"the symbolic link `manifests/{name}.yaml` leads out of the directory" in told
    assert "`manifests/lost.yaml` cannot be read: no such file" in told


def test_a_given_path_may_be_a_link(reconcile: Command) -> None:
    (reconcile.root / "link").symlink_to("manifests")
    commit(reconcile.root)
    assert "# from link/data.yaml" in reconcile("build --ref HEAD link").out


def test_a_submodule_is_named(reconcile: Command, tmp_path: Path) -> None:
    shutil.copytree(reconcile.root, tmp_path / "other")
    git(reconcile.root, "submodule", "--quiet", "add", str(tmp_path / "other"), "manifests/shared")
    commit(reconcile.root)
    told = reconcile("validate --ref HEAD", code=1).err
    assert "error[git-submodule]: `manifests/shared` is a submodule" in told
    inside = reconcile("validate --ref HEAD manifests", cwd="manifests/shared").out
    assert inside == "Valid: 2 resources in 2 files.\n"


def test_pointers_of_lfs_are_no_manifests(reconcile: Command) -> None:
    reconcile.write(
        "manifests/large.yaml", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
    )
    commit(reconcile.root)
    assert "error[lfs-pointer]: `manifests/large.yaml`" in reconcile("validate --ref HEAD", code=1).err


def test_large_files_and_missing_paths_are_reported(reconcile: Command) -> None:
    reconcile.write("manifests/large.yaml", "#" * (5 << 20))
    reconcile.write("empty/readme.txt", "nothing")
    commit(reconcile.root)
    told = reconcile("validate --ref HEAD manifests nowhere empty -", code=1).err
    assert "error[file-too-large]: `manifests/large.yaml`" in told
    assert "error[missing-path]: there is no file or directory `nowhere` at HEAD" in told
    assert "warning[no-manifests]: `empty` holds no" in told
    assert "`-` is not part of the git revision HEAD" in told


def test_neither_filters_nor_hooks_nor_drivers_nor_variables_of_a_hook_are_heeded(reconcile: Command) -> None:
    trap = reconcile.write("../trap", "#!/bin/sh\ntouch sprung\nexec cat\n")
    trap.chmod(stat.S_IRWXU)
    reconcile.write(".gitattributes", "*.yaml filter=trap diff=trap text eol=crlf\n")
    commit(reconcile.root)
    for name in ("filter.trap.smudge", "filter.trap.clean", "diff.trap.textconv", "diff.trap.command"):
        git(reconcile.root, "config", name, str(trap))
    for name in ("core.fsmonitor", "core.pager", "diff.external"):
        git(reconcile.root, "config", name, str(trap))
    reconcile.variables |= {"GIT_EXTERNAL_DIFF": str(trap), "GIT_PAGER": str(trap), "GIT_DIR": "/nonexistent"}
    built = reconcile("build --ref HEAD").out
    assert "name: data" in built
    assert "\r" not in built
    reconcile("validate --changed-since HEAD")
    assert not [*reconcile.root.rglob("sprung"), *reconcile.root.parent.glob("sprung")]


def test_a_bare_repository_is_refused(reconcile: Command, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(reconcile.root), "bare.git")
    told = reconcile("build --ref main", code=1, cwd="../bare.git").err
    assert f"git finds a bare repository at {tmp_path / 'bare.git'}" in told


def plant(reconcile: Command, folder: str, *, settings: str = "", bare: str = "true") -> None:
    """Files in `folder` that git takes for a repository; its `main` is the commit that is checked out."""
    reconcile.write(f"{folder}/HEAD", "ref: refs/heads/main\n")
    reconcile.write(f"{folder}/config", f"[core]\n\trepositoryformatversion = 0\n\tbare = {bare}\n{settings}")
    reconcile.write(f"{folder}/refs/heads/main", f"{git(reconcile.root, 'rev-parse', 'HEAD')}\n")
    shutil.copytree(reconcile.root / ".git/objects", reconcile.root / folder / "objects")


@pytest.mark.parametrize(
    "settings", ["", "\tworktree = ..\n", "\tworktree = .\n"], ids=["bare", "above", "here"]
)
@pytest.mark.parametrize("older_git", [False, True], ids=["explicit", "all"])
@pytest.mark.parametrize("where", ["deploy", "deploy/inner", "."])
def test_a_repository_that_a_commit_brings_is_not_asked(
    reconcile: Command, monkeypatch: pytest.MonkeyPatch, settings: str, older_git: bool, where: str
) -> None:
    """It would say that nothing changed since its own `main`."""
    project = "deploy/inner" if where == "deploy/inner" else "deploy"
    reconcile.write(f"{project}/reconcile.yaml", "manifests: [yaml]\n")
    reconcile.write(f"{project}/yaml/a.yaml", volume(size_gb=10))
    commit(reconcile.root)
    git(reconcile.root, "checkout", "-q", "-b", "work")
    reconcile.write(f"{project}/yaml/a.yaml", volume(size_gb=99))
    commit(reconcile.root)
    assert "changed: Volume/shop/data" in reconcile("validate --changed-since main", cwd=project).out
    if where == ".":  # its `.git` is the real one: nothing that looks like another is taken before it
        plant(reconcile, ".", settings=settings, bare="false" if settings else "true")
        assert "changed: Volume/shop/data" in reconcile("validate --changed-since main", cwd=project).out
        return
    plant(reconcile, "deploy", settings=settings, bare="false" if settings else "true")
    if older_git:
        known = tuple(each for each in _ALWAYS if each != "safe.bareRepository=explicit")
        monkeypatch.setattr("reconciler.manifests.revisions.git._ALWAYS", (*known, "safe.bareRepository=all"))
    told = reconcile("validate --changed-since main", code=1, cwd=project).err
    assert f"git finds a bare repository at {reconcile.root / 'deploy'}" in told
    assert "finds a bare repository" in reconcile("build --ref main", code=1, cwd=project).err


@pytest.mark.parametrize(
    "ref", [" ", "-x", "--output=/tmp/x", "HEAD:manifests", "HEAD..HEAD", "a\tb", "@{nonsense", "main^9"]
)
def test_what_names_no_commit_is_refused(reconcile: Command, ref: str) -> None:
    told = reconcile(f"validate '--ref={ref}'", code=1).err
    assert "error: " in told


@pytest.mark.parametrize("ref", ["-x", "--output=/tmp/x", "--all"])
def test_a_revision_that_looks_like_an_option_never_reaches_git(reconcile: Command, ref: str) -> None:
    pretend(reconcile, f'case "$*" in *" {ref}"*) touch reached;; *) echo /elsewhere/.git;; esac')
    for option in ("--ref", "--changed-since"):
        told = reconcile(f"validate {option}={ref}", code=1).err
        assert f"`{ref}` is not a valid name of a git revision" in told
    assert not (reconcile.root / "reached").exists()


@pytest.mark.parametrize("ref", ["main", "origin/main", "main~0"])
def test_a_name_that_a_tag_shares_with_a_branch_is_refused(reconcile: Command, ref: str) -> None:
    git(reconcile.root, "config", "core.warnAmbiguousRefs", "false")
    git(reconcile.root, "update-ref", "refs/remotes/origin/main", "HEAD")
    git(reconcile.root, "tag", ref.removesuffix("~0"), commit(reconcile.root))
    told = reconcile(f"validate --ref {ref}", code=1).err
    assert f"`{ref}` names several things here" in told
    reconcile("validate --ref refs/remotes/origin/main")


@pytest.mark.parametrize("of", ["HEAD", "id"])
def test_head_and_an_id_name_one_commit_whatever_branches_are_called(reconcile: Command, of: str) -> None:
    ref = git(reconcile.root, "rev-parse", "HEAD") if of == "id" else of
    git(reconcile.root, "update-ref", f"refs/heads/{ref}", commit(reconcile.root))
    reconcile(f"validate --ref {ref}")


def test_a_replaced_commit_is_read_as_its_id_says(reconcile: Command) -> None:
    before = git(reconcile.root, "rev-parse", "HEAD")
    reconcile.write("manifests/data.yaml", volume(size_gb=20))
    git(reconcile.root, "replace", before, commit(reconcile.root))
    assert "size_gb: 10" in reconcile(f"build --ref {before}").out


def test_an_unknown_revision_gets_a_suggestion(reconcile: Command) -> None:
    git(reconcile.root, "branch", "feature/volumes")
    told = reconcile("validate --ref feature/volume", code=1).err
    assert "error: git has no commit `feature/volume` here" in told
    assert "did you mean `feature/volumes`?" in told
    assert "git fetch origin zzz" in reconcile("validate --ref origin/zzz", code=1).err


def test_a_directory_without_a_repository_gets_advice(reconcile: Command) -> None:
    shutil.rmtree(reconcile.root / ".git")
    reconcile.variables["GIT_CEILING_DIRECTORIES"] = str(reconcile.root.parent)
    told = reconcile("validate --ref HEAD", code=1).err
    assert "is in no git repository" in told
    assert "run inside a clone" in told


def test_a_machine_without_git_gets_advice(reconcile: Command, tmp_path: Path) -> None:
    reconcile.variables["PATH"] = str(tmp_path / "nothing")
    assert "there is no program `git` here" in reconcile("validate --ref HEAD", code=1).err


def pretend(reconcile: Command, script: str) -> None:
    """Put another `git` first."""
    program = reconcile.write("../bin/git", f"#!/bin/sh\n{script}\n")
    program.chmod(stat.S_IRWXU)
    reconcile.variables["PATH"] = f"{program.parent}{os.pathsep}{os.environ['PATH']}"


def test_git_gets_no_credential_and_no_secret_value(reconcile: Command, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    pretend(reconcile, f"env > '{seen}'; exit 1")
    reconcile.variables |= {"RECONCILE_AGE_IDENTITY": "AGE-SECRET-KEY-1", "SHOP_PASSWORD": "correct-horse"}
    reconcile("validate --ref main", code=1)
    given = {line.partition("=")[0] for line in seen.read_text().splitlines()}
    assert "PATH" in given
    assert not [name for name in given if name.startswith(("RECONCILE_", "SHOP_"))]


def test_a_repository_of_somebody_else_gets_advice(reconcile: Command) -> None:
    told = "fatal: detected dubious ownership in repository at '/builds/it is/shop'\nTo add an exception ..."
    pretend(reconcile, f'echo "{told}" >&2; exit 128')
    for option in ("--ref", "--changed-since"):
        err = reconcile(f"validate {option} main", code=1).err
        assert "error: git does not read the repository /builds/it is/shop: it belongs to another user" in err
        assert "git config --global --add safe.directory '/builds/it is/shop'" in err


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_repository_that_really_is_somebody_elses_gets_advice(reconcile: Command) -> None:
    for path in (reconcile.root, reconcile.root / ".git"):
        os.chown(path, 12345, 12345)
    err = reconcile("validate --ref main", code=1).err
    assert "it belongs to another user" in err
    assert f"safe.directory {reconcile.root}" in err


def test_a_git_that_fails_or_hangs_is_told_of(reconcile: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(reconcile, 'echo "fatal: bad object store" >&2; exit 128')
    assert "error: git failed: bad object store" in reconcile("validate --ref main", code=1).err
    monkeypatch.setattr(find_repository, "__kwdefaults__", {"timeout_s": 0.1})
    pretend(reconcile, "exec sleep 60")
    assert "git did not answer within" in reconcile("validate --ref main", code=1).err


@pytest.mark.parametrize("filtered", ["blob:none", "tree:0"])
def test_a_partial_clone_is_only_read_and_runs_no_program_that_its_configuration_names(
    reconcile: Command, tmp_path: Path, filtered: str
) -> None:
    origin, clone, mark = reconcile.root, tmp_path / "clone", tmp_path / "mark"
    git(origin, "config", "uploadpack.allowFilter", "true")
    reconcile.write("manifests/data.yaml", volume(size_gb=20))
    commit(origin)
    git(tmp_path, "clone", "-q", f"--filter={filtered}", origin.as_uri(), str(clone))
    reconcile.root = clone
    program = tmp_path / "pack"
    program.write_text(f'#!/bin/sh\n: > "{mark}"\nexec git-upload-pack "$@"\n')
    program.chmod(0o755)
    git(clone, "config", "remote.origin.uploadpack", str(program))
    assert "size_gb: 20" in reconcile("build").out
    for line in ("build --ref HEAD~1", "validate --changed-since HEAD~1"):
        told = reconcile(line, code=1).err
        assert not mark.exists()
        assert "this clone does not have all files of that revision" in told
        assert "git fetch --refetch --no-filter" in told
    git(clone, "config", "--unset", "remote.origin.uploadpack")
    git(clone, "fetch", "-q", "--refetch", "--no-filter")
    assert "size_gb: 10" in reconcile("build --ref HEAD~1").out


@pytest.mark.parametrize("link", ["overlays/prod", "overlays"])
def test_an_environment_whose_folder_is_a_link_inside_the_tree_is_known(
    reconcile: Command, link: str
) -> None:
    reconcile.write("reconcile.yaml", "manifests: [manifests]\n")
    reconcile.write(
        f"other/{link}/{'' if link.endswith('prod') else 'prod/'}a.yaml",
        "Volume/shop/data: {spec: {size_gb: 33}}\n",
    )
    place = reconcile.root / link
    place.parent.mkdir(exist_ok=True)
    place.symlink_to("../other/overlays/prod" if link.endswith("prod") else "other/overlays")
    commit(reconcile.root)
    assert "size_gb: 33" in reconcile("build --env prod").out
    assert "size_gb: 33" in reconcile("build --env prod --ref HEAD").out


@pytest.mark.parametrize("ref", ["HEAD~99", "HEAD^{tree}", "main..main", "@{u}", ":/2", "gone"])
def test_only_what_may_be_a_branch_or_tag_is_to_be_fetched(reconcile: Command, ref: str) -> None:
    told = reconcile(f"validate --ref '{ref}'", code=1).err
    assert f"git has no commit `{ref}` here" in told
    assert ("git fetch origin" in told) == (ref == "gone")
    assert ("name one commit" in told) == (ref != "gone")


def test_an_empty_repository_is_told(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    with pytest.raises(ReconcilerError) as refused:
        find_repository(tmp_path, os.environ).commit_of("HEAD")
    assert refused.value.help == "the repository has no commit yet"


def test_git_runs_no_program_that_a_repository_or_its_user_names(
    reconcile: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, mark, program = reconcile.root, tmp_path / "mark", tmp_path / "program"
    program.write_text(f'#!/bin/sh\necho "$0 $*" >> "{mark}"\ncat "$@"\n')
    program.chmod(0o755)
    reconcile.write("manifests/data.yaml", volume(size_gb=20))
    reconcile.write(".gitattributes", "*.yaml diff=own filter=own merge=own\n")
    commit(root)
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for name in ("post-checkout", "post-index-change", "reference-transaction", "pre-auto-gc"):
        for place in (root / ".git/hooks", hooks):
            shutil.copy(program, place / name)
    run = f"!{program}"
    for command in ("cat-file", "ls-tree", "rev-parse", "merge-base", "for-each-ref", "config"):
        git(root, "config", f"alias.{command}", run)
        git(root, "config", f"pager.{command}", str(program))
    for name in (
        *("core.pager", "core.editor", "core.fsmonitor", "core.sshCommand", "core.askPass"),
        *("core.alternateRefsCommand", "core.gitProxy", "diff.external", "diff.own.command"),
        *("diff.own.textconv", "filter.own.clean", "filter.own.smudge", "filter.own.process"),
        *(
            "merge.own.driver",
            "gpg.program",
            "gpg.ssh.program",
            "credential.helper",
            "uploadpack.packObjectsHook",
        ),
    ):
        git(root, "config", name, str(program))
    git(root, "config", "core.hooksPath", str(hooks))
    for name in ("GIT_PAGER", "PAGER", "GIT_EXTERNAL_DIFF", "GIT_SSH_COMMAND", "GIT_ASKPASS", "GIT_EDITOR"):
        monkeypatch.setenv(name, str(program))
    assert "size_gb: 10" in reconcile("build --ref HEAD~1").out
    assert "changed: Volume/shop/data" in reconcile("validate --changed-since HEAD~1").out
    reconcile("validate")
    assert not mark.exists(), mark.read_text()
    repository = find_repository(root, os.environ)
    for command in ("log", "diff", "show", "status", "fetch", "checkout", "grep", "blame"):
        with pytest.raises(ValueError, match="may run programs"):
            repository.run(command)
    git(root, "-c", "core.fsmonitor=false", "log", "-Ssize_gb", "--", "manifests/data.yaml")
    assert mark.exists()  # as a search of the history does
