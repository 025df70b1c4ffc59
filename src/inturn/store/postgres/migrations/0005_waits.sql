-- A wait is fresh, and no longer the job that waits: only a wait for a job of an earlier batch can
-- have been overlooked by a settle, and each is looked at by itself.
alter table inturn.waits add column fresh boolean not null default false;
update inturn.waits w set fresh = true
from inturn.blocked b where b.id = w.job and b.fresh;
with free as (
    delete from inturn.blocked b
    where not exists (select from inturn.waits w where w.job = b.id)
    returning *
)
insert into inturn.parked (
    id, queue, key, kind, payload, priority, round,
    attempts_max, timeout_seconds, enqueued_at,
    delayed, run_at)
select
    id, queue, key, kind, payload, priority, round,
    attempts_max, timeout_seconds, enqueued_at,
    true, enqueued_at
from free;
alter table inturn.blocked drop column fresh;
create index waits_fresh on inturn.waits (job, on_job) where fresh;

-- Jobs that are done while some of what waited for them is still to be let in: a settle lets in a
-- thousand, and later claims the rest.
create table inturn.admitting (
    job uuid primary key
);
