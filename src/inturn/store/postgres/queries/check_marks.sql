-- Marks beyond what is finished, by which a prune would take unfinished jobs.
select format('a mark at position %s of lane %s (%s of queue %L) is not behind what is finished.',
              m.position, l.id, coalesce(quote_literal(l.key), 'open'), l.queue)
from inturn.mark m join inturn.lane l on l.id = m.lane
where m.position >= case when l.key is null then l.cursor else l.head end
   or exists (select from inturn.run r where r.lane = l.id and r.first <= m.position)
