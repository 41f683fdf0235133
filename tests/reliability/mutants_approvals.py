"""Bugs of approvals: who may sign, for how long, how often. Each is caught by the fast test that it names."""

from tests.reliability.planting import Change, Mutant, tested

JUDGING = "approvals/judging.py"
STATEMENT = "approvals/statement.py"
SSH = "approvals/ssh.py"
RULES = "approvals/rules.py"
IN_FORCE = "approvals/in_force.py"
APPLY = "project/apply.py"
RUN_PLAN = "project/run.py"
RECORDER = "execution/recorder.py"
STATE_RULES = "state/rules.py"

JUDGED, APPLIED, ASKED, FORCED = (
    f"tests/approvals/test_{name}.py" for name in ("judging", "applying", "authority", "in_force")
)
OF_STATEMENTS = "tests/approvals/test_statement.py"


APPROVALS: tuple[Mutant, ...] = (
    # --- what an approval dies by ---
    tested(
        "the end of an approval is not looked at",
        f"{JUDGED}::test_it_dies_by_time",
        JUDGING,
        'UTC" if now >= ends else ""',
        'UTC" if False else ""',
    ),
    tested(
        "an approval lasts as long as its signer says, whatever the rule says",
        f"{JUDGED}::test_a_rule_gives_an_approval_less_time_than_it_names",
        JUDGING,
        "ends = min(said.expires, said.at + lasts)",
        "ends = said.expires",
    ),
    tested(
        "an approval from the future counts",
        f"{JUDGED}::test_it_dies_by_time",
        JUDGING,
        "if said.at > now + _CLOCKS:",
        "if False:",
    ),
    *(
        tested(
            f"an approval counts for another {name}",
            f"{JUDGED}::test_it_dies_by_another_plan_rehearsal_environment_or_state",
            JUDGING,
            f"if said.{name} != about.{name}:",
            "if False:",
        )
        for name in ("plan", "rehearsal", "environment", "lineage")
    ),
    tested(
        "a statement may be written in other bytes than were signed",
        f"{OF_STATEMENTS}::test_what_is_no_approval_is_refused",
        STATEMENT,
        "if problems or written != text:",
        "if problems:",
    ),
    # --- who may sign ---
    tested(
        "a signature for any namespace counts",
        f"{JUDGED}::test_a_signature_for_another_purpose_does_not_count",
        SSH,
        '["-n", NAMESPACE, "-s", signed, f"-O{moment}"]',
        '["-n", _text(b64decode(b"".join(signature.split(b"\\n")[1:-2])), '
        '_text(b64decode(b"".join(signature.split(b"\\n")[1:-2])), 10)[1])[0].decode(), '
        '"-s", signed, f"-O{moment}"]',
    ),
    tested(
        "nobody asks whether the signer is listed",
        f"{JUDGED}::test_it_dies_by_the_removal_of_its_signer",
        SSH,
        '["ssh-keygen", "-Y", "verify", *who, *what]',
        '["ssh-keygen", "-Y", "check-novalidate", "-n", NAMESPACE, "-s", signed]',
    ),
    tested(
        "one person with two keys or names counts twice",
        f"{JUDGED}::test_one_person_with_two_keys_or_two_names_is_one",
        JUDGING,
        "found = [*apart, together.union(*(group for group in found if group & together))]",
        "found.append(together)",
    ),
    tested(
        "what allowed_signers brings together counts for itself",
        f"{JUDGED}::test_names_that_the_file_brings_together_are_one_person",
        JUDGING,
        "    for patterns, key in lines:\n",
        "    for patterns, key in ():\n",
    ),
    tested(
        "two certificates of one key are two keys",
        f"{JUDGED}::test_an_authority_vouches_for_each_key_that_it_certified",
        JUDGING,
        "plain_key(signing_key(approval.signature))",
        "signing_key(approval.signature)",
    ),
    tested(
        "the line of an authority makes one person of all whom it certified",
        f"{JUDGED}::test_an_authority_vouches_for_each_key_that_it_certified",
        JUDGING,
        'if "cert-authority" not in options:',
        "if True:",
    ),
    tested(
        "a reason may be blank",
        f"{OF_STATEMENTS}::test_a_statement_that_nobody_would_write_is_refused",
        STATEMENT,
        "text.isprintable() and bool(text.strip()) and",
        "bool(text) and",
    ),
    # --- whose rules ---
    tested(
        "rules and signers are those of what is checked out",
        f"{ASKED}::test_rules_are_those_of_both_and_signers_who_are_in_both",
        IN_FORCE,
        "before = trusted_revision(start, config.variables, ref)",
        'before = trusted_revision(start, config.variables, "HEAD")',
    ),
    tested(
        "a change may take rules of the base away",
        f"{ASKED}::test_a_change_that_removes_all_settings_takes_no_rule_away",
        IN_FORCE,
        "then = Said((*rules, *require_limits(patterns, config.root, before)), (signers,))",
        "then = Said((), (signers,))",
    ),
    tested(
        "who takes a rule away is not held to it",
        f"{FORCED}::test_who_takes_a_rule_away_is_still_held_to_it_and_the_next_run_is_not",
        IN_FORCE,
        "said = Said.of(Said(tuple(loosened), before.signers), now)",
        "said = Said.of(Said((), before.signers), now)",
    ),
    tested(
        "a signer counts from the change on that names them",
        f"{FORCED}::test_signers_who_come_count_from_the_next_run_on_and_who_leave_at_once",
        IN_FORCE,
        "said = Said.of(Said(tuple(loosened), before.signers), now)",
        "said = Said.of(Said(tuple(loosened)), now)",
    ),
    tested(
        "a run about a part takes away what the rest is held to",
        f"{FORCED}::test_a_run_about_a_part_loosens_nothing",
        IN_FORCE,
        "is_part = failed or left_out or desired.targets or desired.focus is not None",
        "is_part = failed or left_out",
    ),
    tested(
        "a file that is not given takes away what its objects are held to",
        f"{FORCED}::test_a_run_about_a_part_loosens_nothing",
        IN_FORCE,
        "if not desired.selected(record)}",
        "if False}",
    ),
    tested(
        "another app's pipeline forgets the rules",
        f"{FORCED}::test_another_apps_pipeline_neither_loosens_nor_is_held_to_what_counts_here",
        IN_FORCE,
        "others.intersection(scopes) for text",
        "set[str]() for text",
    ),
    tested(
        "a run of which something failed loosens",
        f"{FORCED}::test_a_run_of_which_something_failed_loosens_nothing",
        IN_FORCE,
        'failed = any(result.outcome != "done" for result in results)',
        "failed = False",
    ),
    tested(
        "a new rule is remembered at the end of a run only",
        f"{FORCED}::test_a_new_rule_counts_at_once_and_outlives_a_run_that_dies",
        RUN_PLAN,
        "        await remember_begun(project, terms, lease)\n",
        "",
    ),
    tested(
        "a run that ends late loosens what others made stricter",
        f"{FORCED}::test_a_run_that_ends_late_does_not_loosen_what_others_made_stricter",
        IN_FORCE,
        "is_part or begun != planned",
        "is_part",
    ),
    tested(
        "rules are not asked again under the lease",
        f"{FORCED}::test_what_others_make_stricter_while_a_person_is_asked_counts",
        RUN_PLAN,
        "    if has_errors(judged.problems):\n        raise Refused(",
        "    if False:\n        raise Refused(",
    ),
    tested(
        "an objective that a manifest drops is no weaker one",
        f"{FORCED}::test_an_objective_is_compared_with_that_of_the_last_apply",
        IN_FORCE,
        "if after is None or after > before:",
        "if after is not None and after > before:",
    ),
    tested(
        "an approval of one weaker objective is one of any",
        f"{FORCED}::test_an_approval_of_one_weaker_objective_is_none_of_another",
        "planning/digest.py",
        'of(weakened.address)["loosens"][weakened.objective] = [weakened.before, weakened.after]',
        "of(weakened.address)",
    ),
    tested(
        "a part of the manifests forgets the objectives of the others",
        f"{FORCED}::test_a_part_of_the_manifests_forgets_no_objective_of_the_others",
        IN_FORCE,
        "if name in left}",
        "if False}",
    ),
    tested(
        "an app that the state does not know yet is held to nothing",
        f"{FORCED}::test_an_app_that_the_state_does_not_know_yet_is_held_to_all_that_it_remembers",
        IN_FORCE,
        "            return rules.keys()\n",
        "            return ()\n",
    ),
    tested(
        "what held a new app is forgotten where its run fails",
        f"{FORCED}::test_what_held_a_new_app_holds_it_until_a_run_went_through",
        IN_FORCE,
        "{*self._held_to(before), *said}",
        "{*said}",
    ),
    tested(
        "git may be asked what runs a converter",
        "tests/revisions/test_ref.py::test_git_runs_no_program_that_a_repository_or_its_user_names",
        "manifests/revisions/git.py",
        "if arguments[0] not in _READING:",
        "if False:",
    ),
    tested(
        "an approval does not cover what its rehearsal takes for granted",
        "tests/rehearsal/test_rehearse.py::"
        "test_only_durations_and_wording_are_not_in_the_digest_of_a_rehearsal",
        "rehearsal/results.py",
        "[[assumed.name, assumed.says] for assumed in self.assumptions]",
        "[]",
    ),
    tested(
        "a clone without the base does as if there was none",
        f"{ASKED}::test_a_clone_without_the_base_is_an_error_that_says_how_to_fetch_it",
        IN_FORCE,
        "    except ReconcilerError as failure:\n        raise ReconcilerError(\n"
        '            f"the revision before this change',
        "    except ReconcilerError as failure:\n        return None\n        raise ReconcilerError(\n"
        '            f"the revision before this change',
    ),
    tested(
        "a link leads from outside to signers in the checkout",
        f"{ASKED}::test_signers_in_the_checkout_are_not_outside",
        IN_FORCE,
        "if any(_resolved(path).is_relative_to(folder)",
        "if any(path.is_relative_to(folder)",
    ),
    # --- how often, and for what ---
    tested(
        "the journal is not told which approvals a run uses",
        f"{APPLIED}::test_the_journal_has_them_whole_before_the_first_intent",
        RECORDER,
        'used: dict[str, Any] = {"approvals": list(approvals)} if approvals else {}',
        "used: dict[str, Any] = {}",
    ),
    tested(
        "the state does not know which approvals were used",
        f"{APPLIED}::test_the_journal_has_them_whole_before_the_first_intent",
        STATE_RULES,
        'used = data.get("approvals", ())',
        "used: tuple[Any, ...] = ()",
    ),
    tested(
        "nobody asks under the lease whether an approval was used meanwhile",
        f"{APPLIED}::test_an_approval_is_used_once_also_by_two_runners_at_once",
        RUN_PLAN,
        "    judged = await judge(project, Terms(project.authority, resources, state, plan), given)\n",
        "    judged = Judged(given.approvals, ())\n",
    ),
    tested(
        "an approval that does not count covers deletes",
        f"{APPLIED}::test_a_delete_runs_with_the_approvals_that_count",
        APPLY,
        "*(uncovered if not judged.counting else ()),",
        "*(uncovered if not self.given.approvals else ()),",
    ),
    Mutant(
        "an approved delete is enough where a rule matches",
        (
            Change(
                APPLY,
                "*(judged.problems if has_errors(judged.problems) else ()),",
                "*(judged.problems if has_errors(judged.problems) and uncovered else ()),",
            ),
            Change(
                RUN_PLAN,
                "    if has_errors(judged.problems):\n        raise Refused(",
                "    if False:\n        raise Refused(",
            ),
        ),
        test=f"{APPLIED}::test_a_delete_runs_with_the_approvals_that_count",
    ),
    tested(
        "a delete that only a call shows needs no approval",
        "tests/approvals/test_rules.py::test_what_a_call_does_counts_whatever_its_change_says",
        RULES,
        "or (when.action == Action.DELETE and deleted)",
        "",
    ),
)
