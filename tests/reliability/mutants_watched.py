"""Bugs of what is watched, made, compared and told. Each is caught by the fast test that it names."""

from tests.reliability.planting import Mutant, tested

FIND = "drift/find.py"
DRIFT = "planning/drift.py"
CREATES = "approvals/creates.py"
OLDER = "project/records.py"
MARKS = "state/marks.py"
SPOOLING = "state/spooling.py"
SEALED = "state/encryption/bucket.py"
TAKING = "state/log/leases.py"
REVIEWED = "planning/reviewed.py"
DECIDING = "planning/deciding.py"
RESTARTS = "execution/judging.py"
SIGNALS = "cli/signals.py"
WIRE = "services/http1.py"

WATCHED = "tests/drift/test_watched.py"
CREATING = "tests/cli/test_approve_create.py"
MARKED = "tests/state/test_marks.py"
SAVED = "tests/execution/test_saved.py"
OWING = "tests/execution/test_owing.py"
HELD = "tests/execution/test_held.py"
CASES = "tests/kinds/test_cases.py"
ANSWERS = "tests/services/test_http_answers.py"


OF_WATCHED: tuple[Mutant, ...] = (
    # --- an answer belongs to its request ---
    tested(
        "what came between two requests is taken for the next answer",
        ANSWERS,
        WIRE,
        " and not self._poll.poll(0)",
        "",
    ),
    tested(
        "a connection is kept although more than the answer came",
        ANSWERS,
        WIRE,
        'raise Lost("more than the answer")',
        "return",
    ),
    tested("a connection is kept after a cancellation", ANSWERS, WIRE, "is_kept = False", "is_kept = True"),
    tested(
        "a proxy's bytes behind its answer are passed over",
        "tests/services/test_transport.py",
        WIRE,
        'status is None or (more and status[1].startswith(b"2"))',
        "status is None",
    ),
    # --- every record is compared ---
    tested(
        "what no manifest names is not compared",
        WATCHED,
        FIND,
        "            and not (self._in_focus(record.address) and self.desired.selected(record))\n",
        "",
    ),
    tested(
        "what is gone and not wanted is no drift",
        WATCHED,
        DRIFT,
        "    if live is None or not live.present:\n",
        "    if (live is None or not live.present) and resource is None:\n        return None, []\n"
        "    if live is None or not live.present:\n",
    ),
    tested(
        "another object under the same id is no drift",
        WATCHED,
        DRIFT,
        "else not is_same(before, now):",
        "else not is_same(1, 1):",
    ),
    tested(
        "a failed object is no drift",
        WATCHED,
        DRIFT,
        "if now in watch.bad if watch.bad else not",
        "if False if watch.bad else not",
    ),
    tested(
        "what later looks are compared with is not kept",
        "tests/planning/test_bindings.py",
        DRIFT,
        "return {path: value for path, value in new.items() if value is not None and path not in known}",
        "return {}",
    ),
    tested(
        "an inferred id is not told by drift",
        CASES,
        "drift/unrecorded.py",
        "if record.inferred and address not in outside:",
        "if False:",
    ),
    tested(
        "spooled outcomes are not told by drift",
        WATCHED,
        "drift/unrecorded.py",
        "    if state.spooled:\n",
        "    if False:\n",
    ),
    tested(
        "an open call is not told by drift",
        "tests/cli/test_drift.py::test_an_open_call_is_no_quiet_world",
        FIND,
        "            *self.questions.values(),\n",
        "",
    ),
    # --- what no list shows ---
    tested(
        "the approval of a create counts in every state",
        f"{CREATING}::test_what_stays_in_a_workflow_file_approves_nothing_in_another_state",
        CREATES,
        'f"{address}@{word}" not in approved',
        'not any(of.startswith(f"{each}@") for of in approved)',
    ),
    tested(
        "a create that no list shows needs no approval",
        f"{CREATING}::test_a_new_machine_makes_no_second_cluster",
        CREATES,
        "if not state.lineage or plan.context.platform == EMBEDDED:",
        "if True:",
    ),
    tested(
        "one recorded cluster approves all others",
        f"{CREATING}::test_a_recorded_cluster_does_not_approve_another",
        CREATES,
        "        if address not in state.records\n",
        "        if not any(each.kind == address.kind for each in state.records)\n",
    ),
    tested(
        "a restore needs no approval",
        f"{CREATING}::test_a_restore_needs_approval_too",
        CREATES,
        "return made | {step.address for step in plan.steps if step.effect.id_path is not None}",
        "return {change.address for change in plan.changes if change.action is Action.CREATE}",
    ),
    tested(
        "an approval that matches nothing is no error",
        f"{CREATING}::test_an_approval_of_nothing_is_an_error",
        CREATES,
        "for verb, address in sorted(idle - done))",
        "for verb, address in ())",
    ),
    tested(
        "an answer approves every later create, too",
        f"{CREATING}::test_who_says_that_nothing_was_created_approves_the_next_create",
        CREATES,
        "    if used:\n",
        "    if False:\n",
    ),
    # --- a lost, copied or older state ---
    tested(
        "objects that are older than the state are not told",
        "tests/cli/test_state_missing.py::test_objects_that_are_older_than_the_state_are_told_until_a_person_"
        "knows_them",
        OLDER,
        "created_at is not None and created_at < made_at",
        "False",
    ),
    tested(
        "a state that was put back goes unnoticed",
        MARKED,
        MARKS,
        "if missing := mark.missing_in(state, self._place):",
        "if missing := 0:",
    ),
    tested(
        "a copy is compared with what was seen at its own place only",
        f"{MARKED}::test_a_copy_is_refused_once_the_other_one_has_gone_on",
        MARKS,
        'self._folder.glob(f"*.{lineage}.mark")',
        'self._folder.glob(f"{self._name}.{lineage}.mark")',
    ),
    tested(
        "another history of the same length goes unnoticed",
        f"{MARKED}::test_another_history_of_the_same_length_is_noticed",
        MARKS,
        "bool(hash) and found.get(scope) == length and state.heads.get(scope) != hash",
        "False",
    ),
    tested(
        "a state is made where a mark tells of another one",
        f"{MARKED}::test_no_state_is_made_where_a_mark_tells_of_an_older_one",
        SPOOLING,
        "            self._marks.refuse_new()\n",
        "            pass\n",
    ),
    tested(
        "a state is encrypted to people who cannot read it",
        "tests/state/encryption/test_store.py::test_nobody_encrypts_a_state_that_he_could_not_read",
        SEALED,
        "            raise problems.not_for_us() from None\n",
        "            return\n",
    ),
    # --- restarts, leases ---
    tested(
        "what an unknown answer owes is settled without a look",
        f"{OWING}::test_what_a_lost_answer_may_owe_is_settled_where_the_volume_is_seen",
        RESTARTS,
        "if unsure and await is_held_by(run.services, record, machine):",
        "if unsure:",
    ),
    tested(
        "a taker replaces another head than the one that it judged",
        "tests/state/objects/test_leases.py::test_a_scope_that_got_a_living_holder_while_its_dead_ones_end_was_"
        "written_is_not_taken",
        TAKING,
        "        if not self._scopes.advance(seen, epoch=epoch, lease=beat.id,",
        "        seen = self._scopes.seen(seen.head.scope)\n"
        "        epoch = seen.head.epoch + 1\n"
        "        if not self._scopes.advance(seen, epoch=epoch, lease=beat.id,",
    ),
    # --- saved plans ---
    tested(
        "a file's plan is not compared",
        f"{SAVED}::test_a_forged_plan_sends_nothing",
        REVIEWED,
        "        if was == is_now or (",
        "        if True or (",
    ),
    tested(
        "what the file does not name runs, too",
        f"{SAVED}::test_what_the_file_does_not_name_is_left_and_listed",
        REVIEWED,
        "plan = now.without(there - kept)",
        "plan = now",
    ),
    tested(
        "what a named address needs may be missing in the file",
        f"{SAVED}::test_what_a_named_address_needs_belongs_to_the_file",
        REVIEWED,
        "        if address in needs:\n",
        "        if False:\n",
    ),
    tested(
        "what was never done is taken for done",
        f"{SAVED}::test_a_plan_of_what_was_not_merged_is_not_taken_for_done",
        REVIEWED,
        "return all(value == wanted[name] for",
        "return all(True for",
    ),
    tested(
        "a provider that moved is no difference",
        "tests/providers/provisioning/test_address.py",
        "planning/digest.py",
        "if address in found and service != PLATFORM:",
        "if False:",
    ),
    # --- renames, secrets ---
    tested(
        "a question holds all of the plan",
        f"{HELD}::test_a_rename_in_question_lets_everything_else_go_on",
        DECIDING,
        "        self._hold({address: why for rename in held for address, why in rename.reasons.items()})\n",
        "        self._hold(dict.fromkeys(builder.changes, '') if held else {})\n",
    ),
    tested(
        "an approved delete does not say that what came is another one",
        f"{HELD}::test_an_approved_delete_says_that_what_came_is_another_one",
        DECIDING,
        "{address for address in deleted if approved is not None and str(address) in approved}",
        "set()",
    ),
    tested(
        "a delete that nobody approved yet cannot be signed",
        "tests/approvals/test_applying.py::test_a_signed_delete_says_that_what_came_is_another_object",
        DECIDING,
        "open_to = deleted if approved is None else set()",
        "open_to = set()",
    ),
    tested(
        "what is destroyed may have got another name",
        CASES,
        DECIDING,
        "            self._note_gone(seen)\n",
        "",
    ),
    # --- inferred ids ---
    tested(
        "one look confirms an inferred id",
        "tests/planning/test_bindings.py",
        DRIFT,
        "same = made is not None and is_same(",
        "same = made is None or is_same(",
    ),
    tested(
        "a look that shows a twin confirms an inferred id",
        "tests/execution/test_settling.py::test_a_look_that_shows_anything_else_confirms_nothing",
        "project/plan.py",
        "if not (binding.confirms and (unlisted or binding.address in doubted))",
        "if True",
    ),
    tested(
        "a look that shows other fields confirms an inferred id",
        "tests/execution/test_settling.py::test_a_look_that_shows_anything_else_confirms_nothing",
        DRIFT,
        "return same and not moved_fields(kind, record, None, live)",
        "return same",
    ),
    tested(
        "a signal is lost in the callback that it interrupts",
        "tests/cli/test_signals.py::test_a_signal_inside_a_callback_is_not_lost_and_changes_no_result",
        SIGNALS,
        "            _came.append((number, time.monotonic()))\n            act()\n",
        "            _came.append((number, time.monotonic()))\n            raise Interrupted(number)\n",
    ),
    tested(
        "a program gets the variables that other secrets name",
        "tests/cli/test_secret.py::test_a_program_does_not_get_the_variables_of_other_secrets",
        "secrets/sources.py",
        "            withheld |= self._allowed.values\n",
        "            pass\n",
    ),
    tested(
        "a volume can be made smaller while its extend is not shown yet",
        CASES,
        "kinds/volume/changing.py",
        'known = max(live, subject.record.applied.get("size_gb") or 0)',
        "known = live",
    ),
    # --- what is told ---
    tested(
        "what is true in every run is a finding",
        "tests/reports/test_findings.py::test_what_is_true_in_every_run_is_a_remark_and_no_finding",
        "reports/findings.py",
        " if item.code not in _REMARKS)",
        ")",
    ),
    tested(
        "a lock has an age below zero",
        "tests/state/test_leases.py::test_a_lock_is_never_of_a_negative_age",
        "core/errors.py",
        "age_s = max(0.0, age_s)",
        "age_s = age_s",
    ),
    tested(
        "an ignored key of a provider stops every update",
        "tests/execution/test_extensions.py::test_an_ignored_key_stops_nothing_and_is_named_in_the_plan",
        "kinds/extension/kind.py",
        "ignored=_named(subject.spec.config_ignore or ()),",
        "ignored=_named(()),",
    ),
)
