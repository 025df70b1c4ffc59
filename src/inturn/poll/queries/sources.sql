-- All sources.
select * from poll.source
order by name
