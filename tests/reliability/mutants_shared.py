"""Bugs of what runners share a state by: leases that end, conditional writes, moves to another store.

Each is caught by a history (`state`), or by the fast test that it names (`test`). See `mutants`.
"""

from tests.reliability.planting import Change, Mutant, tested

WRITES = "state/log/writes.py"
COMMITS = "state/log/open_state.py"
SEGMENTS = "state/log/segments.py"
LEASES = "state/log/leases.py"
LEASE_BEATS = "state/log/lease_beats.py"
ROOT = "state/log/root.py"
SCOPES = "state/log/scopes.py"
MOVING = "state/log/moving.py"
STORE = "state/log/store.py"
PG_BUCKET = "state/places/postgres/bucket.py"
PG_CONNECTIONS = "state/places/postgres/connections.py"
RENEWING = "state/renewing.py"
COPIES = "project/copies.py"

LEASES_TEST = "tests/state/objects/test_leases.py"
CONTRACT = "tests/state/objects/test_contract.py::TestInMemory"
FORCED_TEST = f"{CONTRACT}::test_a_scope_taken_by_force_is_closed_to_its_holder"
TAMPERING = "tests/state/test_tampering.py::test_every_verb_refuses_it"
JOURNAL = "tests/state/test_tampering.py::test_old_changes_are_found_by_who_reads_them"
MOMENTS_TEST = "tests/state/objects/test_moments.py"
PG_TEST = "tests/state/postgres/test_contract.py"


def _played(name: str, file: str, old: str, new: str) -> Mutant:
    return Mutant(name, (Change(file, old, new),), state="objects")


def _served(name: str, file: str, old: str, new: str) -> Mutant:
    return Mutant(name, (Change(file, old, new),), state="postgresql")


SHARED: tuple[Mutant, ...] = (
    # --- what became of a write ---
    Mutant(
        "a commit whose answer is lost counts as failed",
        (
            Change(
                WRITES,
                "        if found is not None and found.body == body:\n            return Stored(found.tag)\n"
                '        if (found.tag if found is not None else "") != tag:\n',
                '        if (found.tag if found is not None else "") != tag:\n',
            ),
            Change(COMMITS, "if request.id in found:", "if False:"),
        ),
        test="tests/state/objects/test_rivals.py",
    ),
    _played(
        "a commit whose answer is lost counts as stored",
        WRITES,
        "        except NoAnswer as unanswered:\n",
        '        except NoAnswer as unanswered:\n            if tag:\n                return Stored("?")\n',
    ),
    _played(
        "a create whose answer is lost counts as stored",
        WRITES,
        "        except NoAnswer as unanswered:\n",
        "        except NoAnswer as unanswered:\n"
        '            if not tag:\n                return Stored("?")\n',
    ),
    _played(
        "a write is sent over whatever is there",
        WRITES,
        "bucket.replace(key, body, tag) if tag",
        "bucket.replace(key, body, getattr(bucket.get(key), 'tag', tag)) if tag",
    ),
    _played(
        "a writer that lost the race for a head counts as the one who wrote it",
        SCOPES,
        "        if isinstance(outcome, writes.Conflict):\n            return False\n",
        "        if isinstance(outcome, writes.Conflict):\n            return True\n",
    ),
    _played(
        "a head is written without a nonce and without a serial",
        SCOPES,
        "serial=seen.head.serial + 1, nonce=self.nonce()",
        'nonce=""',
    ),
    _played(
        "the head names a segment before that is written",
        SEGMENTS,
        "        if isinstance(writes.create(self._bucket, key, body), writes.Conflict):\n"
        '            raise Damaged(f"{key} was written by somebody else")\n',
        "        late = self.__dict__.setdefault('late', [])\n"
        "        for each in late:\n            writes.create(self._bucket, *each)\n"
        "        late[:] = [(key, body)]\n",
    ),
    tested(
        "segments are deleted before the head that no longer names them has landed",
        f"{MOMENTS_TEST}::test_a_head_that_does_not_land_leaves_its_segments",
        COMMITS,
        "        asked_s = self._clock.monotonic()\n",
        "        asked_s = self._clock.monotonic()\n"
        "        if seen is not before:\n"
        "            self.files.delete_unnamed(before.head, seen.head)\n",
    ),
    _played(
        "the root does not name a new scope",
        ROOT,
        "return replace(root, moving=False, scopes=scopes)",
        "return replace(root, moving=False)",
    ),
    tested(
        "a head that was put back is believed",
        f"{TAMPERING}[objects-a scope as it was a run ago-sealed]",
        SCOPES,
        "    if head.serial < root.scopes.get(head.scope, 0):\n",
        "    if not head.scope:\n",
    ),
    tested(
        "an older root is believed",
        f"{TAMPERING}[objects-a root as it was a run ago-sealed]",
        SCOPES,
        "    if root.serial < head.root:\n",
        "    if not root.serial:\n",
    ),
    tested(
        "a head that the root does not name is believed",
        f"{TAMPERING}[objects-a head that nobody named-plain]",
        SCOPES,
        "if key not in named and heads.is_used(head.body):",
        "if not named and heads.is_used(head.body):",
    ),
    # --- who has a scope ---
    _played(
        "the epoch does not rise with a lease",
        LEASES,
        "        epoch = seen.head.epoch + 1\n        if not self._scopes.advance(seen, epoch=epoch,",
        "        epoch = max(1, seen.head.epoch)\n        if not self._scopes.advance(seen, epoch=epoch,",
    ),
    tested(
        "a commit does not compare its epoch",
        FORCED_TEST,
        COMMITS,
        "if lease.epochs[lease.scope] != seen.head.epoch:",
        "if False:",
    ),
    Mutant(
        "nobody looks whether a lease has ended",
        (
            Change(LEASES, "            if rest_s <= 0:\n", "            if False:\n"),
            Change(LEASES, "            if rest_s <= for_s:\n", "            if False:\n"),
            Change(STORE, "if opened.leases.shortest_s(lease) <= for_s:", "if False:"),
        ),
        test=f"{MOMENTS_TEST}::test_a_lease_that_ends_while_the_store_is_asked_does_not_check",
    ),
    Mutant(
        "the end of a lease is looked at before the store is asked, and not after",
        (
            Change(
                STORE,
                "        opened.leases.require(lease)\n"
                "        if not opened.leases.use_fresh_check(lease):\n"
                "            check = Check(lease)\n",
                "        opened.leases.require(lease, for_s)\n"
                "        if not opened.leases.use_fresh_check(lease):\n"
                "            check = Check(lease)\n",
            ),
            Change(
                STORE,
                "        opened.leases.require(lease)\n"
                "        if opened.leases.shortest_s(lease) <= for_s:\n"
                "            await self._in_thread(lambda: opened.leases.beat(lease, for_s))\n"
                "        opened.leases.require(lease, for_s)\n",
                "",
            ),
        ),
        test=f"{MOMENTS_TEST}::test_a_lease_that_ends_while_the_store_is_asked_does_not_check",
    ),
    tested(
        "a lease need not outlive the call",
        f"{LEASES_TEST}::test_a_check_renews_where_the_rest_is_too_short",
        STORE,
        "        if opened.leases.shortest_s(lease) <= for_s:\n"
        "            await self._in_thread(lambda: opened.leases.beat(lease, for_s))\n"
        "        opened.leases.require(lease, for_s)\n",
        "",
    ),
    tested(
        "a lease begins when its answer comes, and not when it was sent",
        f"{MOMENTS_TEST}::test_a_lease_counts_from_when_it_was_asked_for",
        LEASES,
        "held.beat, held.tag, held.ends_s = beat, tag, began_s + self._exclusion.lease_s",
        "held.beat, held.tag, held.ends_s = beat, tag, self._clock.monotonic() + self._exclusion.lease_s",
    ),
    tested(
        "the first beat of a lease counts from its answer, too",
        f"{MOMENTS_TEST}::test_a_lease_counts_from_when_it_was_asked_for",
        LEASES,
        "Held(beat, made.tag, began_s + lasts_s)",
        "Held(beat, made.tag, self._clock.monotonic() + lasts_s)",
    ),
    tested(
        "a renewal that comes too late makes the lease ours again",
        f"{LEASES_TEST}::test_a_renewal_that_comes_too_late_never_makes_the_lease_ours_again",
        LEASES,
        "if self._clock.monotonic() >= held.ends_s:\n            ",
        "if False:\n            ",
    ),
    _played(
        "a holder is taken for dead by its wall clock",
        LEASE_BEATS,
        "        rest_s = self._seen[beat.id][1] + beat.lease_s * _LONGER - now_s\n",
        "        rest_s = beat.lease_s if beat.looks_alive(self._clock.now()) else 0.0\n",
    ),
    _played(
        "a holder is taken for dead before its lease is over",
        LEASE_BEATS,
        "+ beat.lease_s * _LONGER - now_s",
        "+ beat.lease_s / 3 - now_s",
    ),
    tested(
        "what is watched may beat meanwhile",
        "tests/state/objects/test_leases.py::test_a_living_holder_keeps_its_scope_whatever_their_clocks_show[0]",
        LEASE_BEATS,
        "        if known is None or known[0] != tag:\n",
        "        if known is None:\n",
    ),
    tested(
        "a lease is taken away although its holder has beaten meanwhile",
        f"{MOMENTS_TEST}::test_a_holder_that_beats_at_the_last_moment_keeps_its_lease",
        LEASES,
        "        if self._replaced(replace(beat, ended=True, nonce=self._scopes.nonce()), tag) is None:\n"
        "            return False\n",
        "        self._replaced(replace(beat, ended=True, nonce=self._scopes.nonce()), tag)\n",
    ),
    tested(
        "what was taken away by force still counts as ours",
        FORCED_TEST,
        LEASES,
        "        if found is None or found[0].ended:\n            held.lost = True\n"
        "        else:\n            held.beat, held.tag = found\n",
        "        if found is None:\n            held.lost = True\n",
    ),
    tested(
        "one intent proves the lease forever",
        f"{LEASES_TEST}::test_a_check_right_after_the_commit_of_an_intent_needs_no_read",
        LEASES,
        "self._fresh.pop(key, ())",
        "self._fresh.get(key, ())",
    ),
    tested(
        "a check asks the store nothing",
        FORCED_TEST,
        STORE,
        "if not opened.leases.use_fresh_check(lease):",
        "if False:",
    ),
    tested(
        "an unlock does not raise the epoch",
        FORCED_TEST,
        LEASES,
        '[change], epoch=seen.head.epoch + 1, lease=""',
        '[change], epoch=seen.head.epoch, lease=""',
    ),
    tested(
        "a lease of several scopes that is not got is not given back",
        f"{LEASES_TEST}::test_a_lease_that_another_was_faster_to_take_leaves_nothing",
        LEASES,
        "        except BaseException:\n            self._end(beat.id)\n",
        "        except BaseException:\n            self._exclusion.end(beat.id)\n",
    ),
    tested(
        "all scopes are given back with the first one",
        CONTRACT,
        LEASES,
        "        if not any(map(held.holds, others)):\n",
        "        if True:\n",
    ),
    # --- renewing ---
    tested(
        "a loop that hangs keeps its lease",
        "tests/state/test_renewing.py",
        RENEWING,
        "or now_s - self._answered_s > QUIET_S",
        "",
    ),
    tested(
        "a lease that was lost is renewed again",
        "tests/state/test_renewing.py",
        RENEWING,
        "self.ended = isinstance(failure, LeaseLost)",
        "self.ended = False",
    ),
    # --- reading ---
    tested(
        "heads are read one after the other, at no common moment",
        f"{MOMENTS_TEST}::test_what_is_stored_while_the_heads_are_read_is_seen_with_all_before_it",
        SCOPES,
        "if len(moved) <= 1 or attempt",
        "if True or attempt",
    ),
    tested(
        "a segment that was changed is believed",
        f"{JOURNAL}[objects-one bit of old changes-plain]",
        SEGMENTS,
        "if hashlib.sha256(found.body).hexdigest() != segment.sha256:",
        "if False:",
    ),
    tested(
        "a head that does not fit its journal is believed",
        f"{TAMPERING}[objects-the newest change is gone-plain]",
        SCOPES,
        "            if not head.fits(folded.marks):\n",
        "            if False:\n",
    ),
    # --- moving ---
    tested(
        "the old side says that it moved before its leases are ended",
        CONTRACT,
        STORE,
        "        for name in sorted(known.scopes):\n"
        "            leases.fence(name)  # nobody who holds it can write or check any more\n"
        "        self._refuse_other(known, to, contents)\n",
        "",
    ),
    tested(
        "a state is copied over another one",
        CONTRACT,
        MOVING,
        "    elif not before[0].moved_to or before[0].lineage != contents.lineage:\n",
        "    elif not contents.lineage:\n",
    ),
    tested(
        "the new side takes changes before the old one has said that it moved",
        f"{MOMENTS_TEST}::test_the_new_side_takes_nothing_before_the_old_one_has_said_that_it_moved",
        COPIES,
        "        await source.store.check(lease)\n        await source.movable.retire(target.url, contents)\n"
        "    await target.movable.revive()\n",
        "        await source.store.check(lease)\n        await target.movable.revive()\n"
        "        await source.movable.retire(target.url, contents)\n",
    ),
    tested(
        "a copy is not compared with what it was made from",
        f"{MOMENTS_TEST}::test_a_copy_that_is_not_what_was_written_is_not_moved_to",
        COPIES,
        "    if not same(contents, copied):\n",
        "    if False:\n",
    ),
    # --- PostgreSQL ---
    _served(
        "PostgreSQL: a lease that has ended is never taken",
        PG_BUCKET,
        "return None if self._bucket.age_s(beat.id) < beat.lease_s else 0.0",
        "return None",
    ),
    _served(
        "PostgreSQL: a lease is taken before its end",
        PG_BUCKET,
        "self._bucket.age_s(beat.id) < beat.lease_s",
        "self._bucket.age_s(beat.id) < beat.lease_s / 4",
    ),
    tested(
        "PostgreSQL: a beat does not say when it was written",
        "tests/state/postgres/test_processes.py",
        PG_BUCKET,
        "SET tag = %s, body = %s, written_at = :now",
        "SET tag = %s, body = %s",
    ),
    tested(
        "PostgreSQL: what stands there is written over, whatever it is",
        PG_TEST,
        PG_BUCKET,
        "    WHERE key = %s AND part = 0 AND tag = %s RETURNING tag",
        "    WHERE key = %s AND part = 0 AND tag <> %s || 'x' RETURNING tag",
    ),
    tested(
        "PostgreSQL: changes are added to a head that has changed since",
        "tests/state/postgres/test_parts.py",
        PG_BUCKET,
        "EXISTS (SELECT FROM :schema.objects WHERE key = %s AND part = 0 AND tag = %s)",
        "EXISTS (SELECT FROM :schema.objects WHERE key = %s AND part = 0 AND tag <> %s || 'x')",
    ),
    tested(
        "PostgreSQL: the changes of a head that moved to a segment stay",
        "tests/state/postgres/test_parts.py",
        PG_BUCKET,
        "if known != tag or not rest.startswith(before):",
        "if False:",
    ),
    tested(
        "PostgreSQL: an object that exists is written over",
        PG_TEST,
        PG_BUCKET,
        "    ON CONFLICT DO NOTHING RETURNING tag",
        "    ON CONFLICT (key, part) DO UPDATE SET tag = excluded.tag, body = excluded.body RETURNING tag",
    ),
    tested(
        "PostgreSQL: a commit whose answer is lost counts as failed",
        "tests/state/postgres/test_line.py",
        PG_CONNECTIONS,
        "                raise NoAnswer(said(error, self.url)) from error\n",
        "                raise self._explained(error) from error\n",
    ),
    tested(
        "PostgreSQL: a write that came too late counts as stored",
        "tests/state/postgres/test_probe.py",
        PG_BUCKET,
        "        if first != [(tag,)]:\n",
        "        if False:\n",
    ),
    tested(
        "PostgreSQL: a table without its key is believed",
        "tests/state/postgres/test_damage.py",
        PG_BUCKET,
        "        if (_KEY,) not in found:\n",
        "        if False:\n",
    ),
    tested(
        "PostgreSQL: a state that an older program works on is migrated",
        "tests/state/postgres/test_older.py",
        PG_BUCKET,
        "                older.require_free(ask)\n",
        "",
    ),
)
