-- All sources.
select name, job, cursor, revision, pages, items, changes, changed_at,
       pass, pass_state, pass_cursor, pass_began_at, pass_ended_at, pass_swept, pass_missing
from poll.source
order by name
