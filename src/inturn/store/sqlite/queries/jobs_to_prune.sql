-- How far one slice may delete of a lane's jobs at or before a mark: where it ends, how many these
-- are, and how long; at least one.
select max(position), count(*), coalesce(sum(size), 0)
from (
    select position, size, sum(size) over (order by position) - size as before
    from (
        select position, length(payload) as size from job
        where lane = ?1 and position <= ?2
        order by position
        limit ?3
    )
)
where before < ?4
