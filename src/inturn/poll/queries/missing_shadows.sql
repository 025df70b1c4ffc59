-- Items that the walk with this number has not seen.
select key, version, deleted, item
from poll.shadow
where source = :source and walk < :walk and not deleted
order by key
limit 1000
