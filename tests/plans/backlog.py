"""A million waiting jobs, made quickly: straight into the tables, past the verbs.

Queues: ``hot`` is one key with 500,000 jobs, ``hot small`` the same with 1,000; ``wide`` is 100,000
keys with 4 jobs each, ``wide small`` 250 such keys; ``open`` is 100,000 jobs without a key,
``open small`` 1,000. Of ``wide``, the 5,000 oldest lanes are leased or sleep until tomorrow; of the
5,100 of ``haunted``, the 5,000 oldest are suspects.
"""

from __future__ import annotations

import psycopg

FILL = """
insert into inturn.queue (name)
values ('hot'), ('hot small'), ('wide'), ('wide small'), ('open'), ('open small'), ('aside'),
       ('haunted');

create temporary table line as
select row_number() over () as lane, queue, key, jobs,
       now() - interval '2 days' + n * interval '1 second' as since
from (
    select 'hot' as queue, 'hot' as key, 500000 as jobs, 1 as n
    union all select 'hot small', 'hot', 1000, 1
    union all select 'wide', 'key ' || n, 4, n from generate_series(1, 100000) n
    union all select 'wide small', 'key ' || n, 4, n from generate_series(1, 250) n
    union all select 'open', null, 100000, 1
    union all select 'open small', null, 1000, 1
    union all select 'haunted', 'key ' || n, 4, n from generate_series(1, 5100) n
) lines;
insert into inturn.lane (id, queue, key, kind, priority, round, active, waiting_since, rank_at,
                         suspect, suspect_last)
select lane, queue, key, 'k', 0, 0, true, since, since,
       queue = 'haunted' and since < now() - interval '2 days' + interval '5000.5 seconds',
       case when queue = 'haunted' then 4 else 0 end from line;
insert into inturn.tail (lane, queue, key, last) overriding system value
select lane, queue, key, jobs from line;
select setval(pg_get_serial_sequence('inturn.tail', 'lane'), (select max(lane) from line));
insert into inturn.job (lane, position, id, kind, payload, priority, round, attempts_max,
                        enqueued_at)
select lane, p, ('01900000-0000-7000-8000-' || lpad(to_hex(row_number() over ()), 12, '0'))::uuid,
       'k', '{"n": 1}', 0, 0, 5, since
from line cross join generate_series(1, jobs) p;
analyze inturn.lane;

-- The oldest lanes of wide: half leased, half asleep.
with old as (
    select id, row_number() over (order by rank_at) as n from inturn.lane where queue = 'wide'
), leased as (
    update inturn.lane l set token = o.n, rank_at = null, cursor = 2, head_attempt = 1
    from old o where l.id = o.id and o.n <= 2500 returning l.id, l.token
)
insert into inturn.lease (token, queue, worker, claimed_at, until, lanes, unsettled)
select token, 'wide', 'w', now(), now() + interval '1 day', array_agg(id), count(*)
from leased group by token;
with old as (
    select id, row_number() over (order by rank_at) as n from inturn.lane
    where queue = 'wide' and token is null
)
update inturn.lane l set ready_at = now() + interval '1 day', rank_at = null, head_attempt = 1
from old o where l.id = o.id and o.n <= 2500;
select setval('inturn.token', 1000000);

-- What waits elsewhere: delayed, between attempts, blocked, dead, deduped.
insert into inturn.parked (id, queue, kind, payload, priority, round, attempts_max, enqueued_at,
                           delayed, run_at, attempt)
select gen_random_uuid(), 'aside', 'k', '1', 0, 0, 5, now(), n % 2 = 0,
       now() + interval '1 hour' + n * interval '1 second', n % 2
from generate_series(1, 20000) n;
insert into inturn.blocked (id, queue, kind, payload, priority, round, attempts_max,
                            enqueued_at)
select gen_random_uuid(), 'aside', 'k', '1', 0, 0, 5, now() from generate_series(1, 20000);
insert into inturn.waits (on_job, job)
select p.id, b.id from (select id, row_number() over (order by id) as n from inturn.parked) p
join (select id, row_number() over (order by id) as n from inturn.blocked) b on b.n = p.n;
insert into inturn.dead (id, queue, kind, payload, priority, round, attempts_max, enqueued_at,
                         attempts, errors, reason, died_at)
select gen_random_uuid(), 'aside', 'k', '1', 0, 0, 5, now(), 5, '[]', 'boom', now()
from generate_series(1, 10000);
insert into inturn.dedupe (queue, dedupe, job, digest, until)
select 'aside', 'mail ' || n, gen_random_uuid(), '\\x00', now() + interval '1 day'
from generate_series(1, 50000) n;
"""

# Nothing of this database has to survive a power cut, and no vacuum may change plans under us.
SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "4GB",
    "autovacuum": "off",
    "shared_buffers": "256MB",
    "maintenance_work_mem": "128MB",
}


def fill(url: str) -> None:
    """Fill a migrated database, and let PostgreSQL learn what is in it."""
    with psycopg.connect(url) as connection:
        connection.execute(FILL.encode())
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("vacuum analyze")
