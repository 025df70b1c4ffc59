-- One source.
select name, job, queue, last_job, cursor, revision, pages, items, changes, changed_at,
       succeeded_at, pass, pass_state, pass_cursor, pass_began_at, pass_ended_at, pass_swept,
       pass_missing
from poll.source
where name = :name
