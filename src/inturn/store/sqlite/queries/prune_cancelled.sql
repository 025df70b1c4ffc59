-- Delete some of the cancelled jobs that are old enough. One that stands in line still is needed
-- there until its lane's cursor has passed it and its row in the log is gone.
delete from cancelled where id in (
    select id
    from (
        select id, size, sum(size) over (order by id) - size as before
        from (
            select cancelled.id, length(cancelled.payload) as size
            from queue
            cross join cancelled indexed by cancelled_age
                on cancelled.queue = queue.name and cancelled.cancelled_at
                    <= ?1 - cast(round(queue.keep_done_seconds * 1000000) as integer)
            where not exists (select 1 from job where job.id = cancelled.id)
            limit ?2
        )
    )
    where before < ?3
)
