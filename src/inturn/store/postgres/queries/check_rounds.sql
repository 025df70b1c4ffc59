-- Keyed lanes in which a round falls, or whose tail remembers another than their last job has.
-- A run is cut before the first round that is not open: right only while rounds never fall.
select format('the round falls from %s to %s at position %s of lane %s (%L of queue %L).',
              before, round, position, lane, key, queue)
from (
    select j.lane, j.position, j.round, l.key, l.queue,
           lag(j.round) over (partition by j.lane order by j.position) as before
    from inturn.lane l
    join inturn.tail t on t.lane = l.id and t.round > 0
    join inturn.job j on j.lane = l.id and j.position >= l.head
    where l.key is not null
    union all
    select l.id, t.last + 1, t.round, l.key, l.queue, max(j.round)
    from inturn.lane l
    join inturn.tail t on t.lane = l.id
    join inturn.job j on j.lane = l.id and j.position >= l.head and j.round > t.round
    where l.key is not null
    group by l.id, t.lane
) rounds
where round < before
union all
select format('lane %s (%L of queue %L) has its tail at round %s, and its last job is of '
              'round %s.', l.id, l.key, l.queue, t.round, j.round)
from inturn.lane l
join inturn.tail t on t.lane = l.id
join inturn.job j on j.lane = l.id and j.position = t.last
where l.key is not null and t.round > j.round
