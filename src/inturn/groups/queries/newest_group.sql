-- A name stands for the group that is under way, else for the newest.
select * from groups.groups where name = :name
order by case when state in ('done', 'undone') then 1 else 0 end, created_at desc, id desc limit 1
