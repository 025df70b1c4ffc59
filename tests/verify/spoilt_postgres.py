"""Parts of the PostgreSQL engine taken out, one at a time: the real functions with other text."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import psycopg

import inturn.store.postgres

FUNCTIONS = Path(inturn.store.postgres.__file__).with_name("functions")
LANES_MAX = 500

Text = Callable[[str], str]


def spoil(url: str, part: str) -> None:
    """Take a part out of the engine in one database."""
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in PARTS[part]():
            connection.execute(statement.encode())


def fence() -> list[str]:
    """Settle a lane for whoever comes, and tell all others that they settled, too."""
    settle = _altered(
        "settle", r"\n\s+and l\.token = p_tokens\[width_bucket\(l\.id, p_lanes\)\]", "", count=3
    )
    return [settle, _altered("settle_others", r"raise exception 'the lease is gone.*?;", "null;")]


def tail_lock() -> list[str]:
    """Take positions from sequences, and lock the tail only afterwards."""
    make = "".join(
        f"create sequence inturn.loose_{lane} minvalue 0 start 0;" for lane in range(1, LANES_MAX)
    )
    take = """
        create function inturn.take_loose(p_lane bigint, p_count integer) returns bigint
        language plpgsql as $$
        declare
            v_before bigint;
        begin
            perform pg_advisory_lock(4711, p_lane::integer);
            select min(nextval(format('inturn.loose_%s', p_lane)::regclass)) into v_before
            from generate_series(1, p_count);
            perform pg_advisory_unlock(4711, p_lane::integer);
            return v_before;
        end $$;"""
    loosely = """
        select array_agg(inturn.take_loose(g.lane, p_counts[g.n]) order by g.n) into befores
        from unnest(lanes) with ordinality as g(lane, n);
        perform pg_sleep(random() * 0.1);
        select array_agg(t.round order by v_places[width_bucket(t.lane, v_sorted)]) into floors
        from inturn.tail t where t.lane = any(v_sorted);
        update inturn.tail t set
            last = greatest(
                t.last, befores[v_places[width_bucket(t.lane, v_sorted)]]
                        + p_counts[v_places[width_bucket(t.lane, v_sorted)]]),
            round = greatest(t.round, p_rounds_last[v_places[width_bucket(t.lane, v_sorted)]])
        where t.lane = any(v_sorted);
        exit;
        lanes :="""
    reserve = _altered(
        "reserve", r"if 0 = all\(p_rounds_last\) then.*?end if;\n\s+lanes :=", loosely
    )
    by_tails = r"if p_key is not null then(.*?)elsif current_setting\(.*?\) = 'read committed' then"
    return [
        make,
        take,
        reserve,
        _altered("accept_one", by_tails, r"if false then\1elsif false then"),
    ]


def attempt_count() -> list[str]:
    """Count no attempt but the first."""
    return [
        _altered("take_lanes", r"l\.head_attempt \+ 1", "1", count=2),
        _altered("claim_suspects", r"(s\.head_attempt|p\.attempt) \+ 1", "1", count=2),
    ]


def single_lease() -> list[str]:
    """Let a lane be claimed while a worker has it."""
    unchecked = """
        do $$
        declare
            c record;
        begin
            for c in
                select conname from pg_constraint
                where conrelid = 'inturn.lane'::regclass and contype = 'c'
                  and pg_get_constraintdef(oid) like '%rank_at%'
            loop
                execute format('alter table inturn.lane drop constraint %I', c.conname);
            end loop;
        end $$;"""
    again = r"(\) o\)\n)(        end,\n        head_attempt)"
    return [unchecked, _altered("lease_lanes", again, r"\1            else l.rank_at\n\2")]


def atomic_bury() -> list[str]:
    """Let a job leave its lane, and fail before its dead letter is written."""
    written = r"(returning id into strict v_job;)"
    return [_altered("bury", written, r"\1 delete from inturn.dead where id = v_job;")]


def crash_count() -> list[str]:
    """Count a crash against the head of a lane that was not alone."""
    uncounted = r"greatest\(l\.head_attempt - 1, 0\)"
    return [_altered("reclaim", uncounted, "l.head_attempt")]


PARTS: dict[str, Callable[[], list[str]]] = {
    one.__name__: one
    for one in (fence, tail_lock, attempt_count, single_lease, atomic_bury, crash_count)
}


def _altered(name: str, pattern: str, text: str, *, count: int = 1) -> str:
    """Return the text of a function's file with something in it replaced."""
    [path] = FUNCTIONS.glob(f"*_{name}.sql")
    altered, found = re.subn(pattern, text, path.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert found == count, f"{path.name} does not read as it did: {found} times {pattern!r}"
    return altered
