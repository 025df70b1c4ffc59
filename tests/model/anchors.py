"""Where each step of the model stands in the SQL, and what it takes from there.

The explorer proves nothing of a function that no longer does what its step says. So the clauses
that a step relies on are written down here, in their order, and ``test_anchors.py`` looks for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

POSTGRES = Path(__file__).parents[2] / "src/inturn/store/postgres"


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """What a step of the model relies on in one SQL function, or in one file."""

    step: str
    """The function of the model, with its module."""
    file: str
    function: str = ""
    clauses: tuple[str, ...]
    rules: tuple[str, ...] = ()
    """The rules that these clauses keep."""

    def __str__(self) -> str:
        return f"{self.step} in {self.function or self.file}"


ANCHORS = (
    Anchor(
        step="producers.reserve",
        file="functions/030_reserve.sql",
        function="reserve",
        clauses=(
            "order by g.lane",
            "update inturn.tail t set last = t.last + p_counts",
            "returning",
            "t.last, t.round",
            "order by t.lane for update",
            "perform inturn.rouse(",
        ),
        rules=(
            "positions_under_the_tail_lock",
            "positions_read_after_the_lock",
            "active_read_after_the_lock",
            "tails_locked_in_order",
        ),
    ),
    Anchor(
        step="producers.reserve",
        file="functions/043_accept_one.sql",
        function="accept_one",
        clauses=(
            "update inturn.tail t set last = t.last + 1",
            "returning t.lane, t.last, t.round",
            "not l.active or (l.token is null and l.cursor >= v_last)",
            "from inturn.lane l where l.id = v_lane",
            "insert into inturn.job (",
            "perform inturn.rouse(",
        ),
        rules=(
            "positions_under_the_tail_lock",
            "positions_read_after_the_lock",
            "active_read_after_the_lock",
        ),
    ),
    Anchor(
        step="producers.look",
        file="functions/024_rouse.sql",
        function="rouse",
        clauses=(
            "where not l.active or (l.key is not null and l.token is null and l.drained)",
            "l.cursor > p_befores",
            "from inturn.lane l where l.id = any(p_lanes)",
        ),
    ),
    Anchor(
        step="producers.wake",
        file="functions/024_rouse.sql",
        function="rouse",
        clauses=("update inturn.lane l set active = true", "head_attempt = 0", "rank_at ="),
    ),
    Anchor(
        step="producers.commit",
        file="functions/042_accept_plain.sql",
        function="accept_plain",
        clauses=("r := inturn.reserve(", "insert into inturn.job ("),
    ),
    Anchor(
        step="producers.commit",
        file="functions/031_append.sql",
        function="append",
        clauses=(
            "r := inturn.reserve(",
            "insert into inturn.job (",
            "r := inturn.reserve(",
            "insert into inturn.job (",
        ),
    ),
    Anchor(
        step="claims.begin",
        file="pool.py",
        clauses=('"default_transaction_isolation": "read committed"',),
    ),
    Anchor(
        step="claims.take",
        file="functions/038_take_lanes.sql",
        function="take_lanes",
        clauses=(
            "array_agg(l.cursor)",
            "array_agg(least(l.last, l.cursor + v_left - l.before - 1))",
            "array_agg(l.head_attempt + 1)",
            "t.last - l.cursor + 1",
            "l.rank_at is not null and not l.suspect",
            "for no key update skip locked",
            "from inturn.tail o where o.lane = l.id",
            "perform inturn.freshen(v_empty, p_now)",
        ),
        rules=("claims_count_attempts",),
    ),
    Anchor(
        step="claims.take",
        file="functions/037_claim_suspects.sql",
        function="claim_suspects",
        clauses=(
            "s.suspect and s.rank_at is not null",
            "for update skip locked",
            "s.cursor <= s.suspect_last",
            "cursor = s.cursor + 1, head_attempt = s.head_attempt + 1",
            "token = nextval('inturn.token')",
        ),
        rules=("suspects_leased_alone", "tokens_new", "claims_count_attempts"),
    ),
    Anchor(
        step="claims.take",
        file="migrations/0001_tables.sql",
        clauses=(
            "check (rank_at is null or (active and token is null",
            "create sequence inturn.token;",
        ),
        rules=("one_lease_a_lane", "tokens_new"),
    ),
    Anchor(
        step="claims.take",
        file="functions/039_lease_lanes.sql",
        function="lease_lanes",
        clauses=(
            "v_token bigint := nextval('inturn.token')",
            "cursor = r.last + 1",
            "token = case when l.key is not null then v_token end",
            "head_attempt = case when l.key is not null then r.attempt",
            "insert into inturn.lease (",
        ),
        rules=("tokens_new", "claims_count_attempts"),
    ),
    Anchor(
        step="claims.rest",
        file="functions/020_freshen.sql",
        function="freshen",
        clauses=(
            "if inturn.within() then v_idle := '{}'",
            "where t.lane = any(p_lanes) and t.last < (select l.cursor",
            "for update skip locked",
            "perform inturn.rest(v_idle)",
        ),
        rules=(
            "rests_under_the_tail_lock",
            "rests_after_a_second_look",
            "tails_tried_by_consumers",
        ),
    ),
    Anchor(
        step="claims.sleep",
        file="functions/020_freshen.sql",
        function="rest",
        clauses=("update inturn.tail set last = last", "active = false, rank_at = null"),
        rules=("rests_write_the_tail",),
    ),
    Anchor(
        step="claims.sleep",
        file="functions/053_settle.sql",
        function="rest_leased",
        clauses=(
            "update inturn.tail set last = last",
            "token = null, active = false",
            "l.token = p_tokens",
            "l.head = p_firsts",
        ),
        rules=("rests_write_the_tail", "settles_fenced"),
    ),
    Anchor(
        step="settles.begin",
        file="functions/053_settle.sql",
        function="hold",
        clauses=("order by token for update", "perform inturn.lost("),
        rules=("settles_fenced",),
    ),
    Anchor(
        step="settles.begin",
        file="functions/053_settle.sql",
        function="lessen",
        clauses=("delete from inturn.lease l", "perform inturn.hold(", "perform inturn.lost("),
        rules=("settles_fenced",),
    ),
    Anchor(
        step="settles.settle",
        file="functions/053_settle.sql",
        function="settle",
        clauses=(
            "perform inturn.hold(",
            "delete from inturn.lease l where l.token = p_tokens[1] and l.unsettled = p_counts[1]",
            "if not found then",
            "perform inturn.lessen(",
            "perform inturn.lessen(",
            "if inturn.complete_keyed(",
            "perform inturn.lost(",
        ),
        rules=("settles_fenced",),
    ),
    Anchor(
        step="transactions.reserve",
        file="functions/053_settle.sql",
        function="settle",
        clauses=("if p_within then perform set_config('inturn.within', 'yes', true)",),
    ),
    Anchor(
        step="settles.settle",
        file="functions/053_settle.sql",
        function="complete_keyed",
        clauses=(
            "if not inturn.within() then",
            "t.last = p_lasts",
            "for update skip locked",
            "inturn.rest_leased(",
            "head = l.cursor",
            "l.token = p_tokens",
            "head_attempt = 1",
            "l.token = p_tokens",
            "return v_left",
        ),
        rules=(
            "rests_under_the_tail_lock",
            "rests_after_a_second_look",
            "tails_tried_by_consumers",
            "transactions_leave_tails_alone",
            "settles_fenced",
        ),
    ),
    Anchor(
        step="settles.settle",
        file="functions/052_settle_others.sql",
        function="settle_others",
        clauses=(
            "l.token = o.token and l.head = o.position",
            "perform inturn.settle_head(",
            "perform inturn.lost(",
        ),
        rules=("settles_fenced",),
    ),
    Anchor(
        step="settles.buried",
        file="functions/051_bury.sql",
        function="bury_head",
        clauses=(
            "insert into inturn.dead (",
            "perform inturn.pass(p_lane, p_position)",
            "perform inturn.freshen(",
        ),
        rules=("buries_atomic",),
    ),
    Anchor(
        step="settles.given_back",
        file="functions/021_give_back.sql",
        function="give_back",
        clauses=("head = p_position, cursor = p_position, token = null", "inturn.freshen("),
    ),
    Anchor(
        step="reclaims.reclaim",
        file="functions/055_reclaim.sql",
        function="reclaim",
        clauses=(
            "for update skip locked",
            "inturn.reclaim_alone(",
            "inturn.reclaim_lanes(",
            "delete from inturn.lease where token = e.token",
        ),
    ),
    Anchor(
        step="reclaims.reclaim",
        file="functions/055_reclaim.sql",
        function="reclaim_lanes",
        clauses=(
            "token = e.token for update",
            "suspect_last = greatest(l.suspect_last, l.cursor - 1), cursor = l.head, token = null",
            "head_attempt = greatest(l.head_attempt - 1, 0)",
        ),
        rules=("suspects_leased_alone",),
    ),
    Anchor(
        step="reclaims.reclaim",
        file="functions/055_reclaim.sql",
        function="reclaim_alone",
        clauses=("token = e.token for update", "inturn.bury_head(", "inturn.give_back("),
        rules=("buries_atomic",),
    ),
    Anchor(
        step="dependents.produce",
        file="functions/028_block.sql",
        function="block",
        clauses=(
            "then 'of this batch'",
            "insert into inturn.waits (on_job, job, fresh)",
            "w.state <> 'of this batch'",
            "insert into inturn.blocked (",
        ),
        rules=("fresh_until_looked_at",),
    ),
    Anchor(
        step="dependents.settle",
        file="functions/053_settle.sql",
        function="settle",
        clauses=(
            "perform inturn.hold(p_tokens)",
            "from inturn.hold_waiting(v_done)",
            "inturn.complete_keyed(",
            "perform inturn.unblock(",
        ),
    ),
    Anchor(
        step="dependents.settle",
        file="functions/050_unblock.sql",
        function="hold_waiting",
        clauses=("limit 1001", "perform from inturn.blocked", "order by id for update"),
        rules=("settles_hold_the_jobs",),
    ),
    Anchor(
        step="dependents.settle",
        file="functions/050_unblock.sql",
        function="unblock",
        clauses=(
            "delete from inturn.waits w using unnest(p_ons[:1000], p_jobs[:1000])",
            "perform inturn.join_lanes(p_jobs[:1000]",
            "insert into inturn.admitting (job)",
        ),
        rules=("settles_delete_what_they_hold", "rest_is_noted"),
    ),
    Anchor(
        step="dependents.admit",
        file="functions/056_admit.sql",
        function="admit",
        clauses=(
            "from inturn.admitting a limit 1 for update skip locked",
            "from inturn.blocked k where k.id = any(v_jobs) for update skip locked",
            "v_quiet := inturn.quiet(",
            "inturn.state(q.job, p_now)",
            "delete from inturn.waits w",
            "update inturn.waits w set fresh = false",
            "perform inturn.join_lanes(",
            "delete from inturn.admitting",
        ),
        rules=("admits_hold_the_job",),
    ),
    Anchor(
        step="dependents.admit",
        file="functions/056_admit.sql",
        function="quiet",
        clauses=(
            "update inturn.lease set unsettled = unsettled",
            "from inturn.lease where token = any(h.tokens) for update skip locked",
        ),
        rules=("admits_try_the_lease", "admits_write_the_lease"),
    ),
    Anchor(
        step="dependents.cancel",
        file="functions/060_cancel.sql",
        function="cancel",
        clauses=("delete from inturn.blocked", "delete from inturn.waits where job = p_job"),
    ),
    Anchor(
        step="workers.moves",
        file="queries/turn.sql",
        clauses=("from inturn.settle(", "cross join lateral inturn.claim(", "settled.lanes)"),
    ),
)


def missing(anchor: Anchor, source: str) -> Iterator[str]:
    """Return what the source does not say, or not in this order."""
    text = _body(anchor.function, source) if anchor.function else source
    text = _plain(text)
    place = 0
    for clause in anchor.clauses:
        found = text.find(_plain(clause), place)
        if found < 0:
            yield f"{anchor}: no {clause!r} where the model has it"
        else:
            place = found + len(_plain(clause))


def _body(function: str, source: str) -> str:
    """Return a function's text, without its comments, from its name to its end."""
    start = f"create or replace function inturn.{function}("
    _, found, rest = source.partition(start)
    return re.sub(r"--[^\n]*", "", rest.partition("\nend $$;")[0]) if found else ""


def _plain(text: str) -> str:
    return " ".join(text.split())
