-- Runs of open lanes that do not lie where they should.
with run as (
    select r.*,
           format('the run from position %s to %s of lane %s', r.first, r.last, r.lane) as name,
           int8range(r.first, r.last, '[]') as whole, l.id, l.key, l.cursor,
           lag(r.last) over (partition by r.lane order by r.first, r.token) as before
    from inturn.run r left join inturn.lane l on l.id = r.lane
)
select faults.said
from run
cross join lateral unnest(array[
    case when id is null then format('%s stands in a lane that is not there.', name) end,
    case when key is not null then format('%s stands in a keyed lane.', name) end,
    case when last >= cursor
         then format('%s is not before the cursor, which is at %s.', name, cursor) end,
    case when before >= first
         then format('%s overlaps another, which ends at %s.', name, before) end,
    case when not settled <@ whole
         then format('%s has positions settled that are not its own: %s.', name, settled) end,
    case when settled @> whole then format('%s is settled and still there.', name) end,
    case when (select count(*) from inturn.job j
               where j.lane = run.lane and j.position between run.first and run.last
                 and not run.settled @> j.position)
              <> (select coalesce(sum(upper(s) - lower(s)), 0)
                  from unnest(int8multirange(whole) - settled) s)
         then format('%s has lost jobs that are not settled.', name) end
]) as faults(said)
where faults.said is not null
