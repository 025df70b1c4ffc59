-- Groups that ended long ago.
select id from groups.groups where ended_at < :before order by ended_at limit coalesce(:rows_max, 0)
