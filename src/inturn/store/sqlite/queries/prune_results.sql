-- Delete some of the results that are kept no longer.
delete from result where job in (
    select job
    from (
        select job, size, sum(size) over (order by job) - size as before
        from (
            select job, length(value) as size from result indexed by result_until
            where until <= ?1
            limit ?2
        )
    )
    where before < ?3
)
