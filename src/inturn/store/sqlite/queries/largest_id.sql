-- The largest id that is known anywhere. Ids go up, so a batch above it holds none that is known.
select max(
    coalesce((select max(id) from job), x''),
    coalesce((select max(id) from parked), x''),
    coalesce((select max(id) from blocked), x''),
    coalesce((select max(id) from dead), x''),
    coalesce((select max(id) from cancelled), x''))
