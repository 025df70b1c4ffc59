-- How many items a source has, and how many of them the walk with this number has not seen.
select count(*) as items, coalesce(sum(case when walk < :walk then 1 else 0 end), 0) as missing
from poll.shadow
where source = :source and not deleted
