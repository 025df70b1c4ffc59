-- Wake those who wait for a queue in which a job waits for ?1, so that a claim lets it in.
update depth set woken = woken + 1
where queue in (
    select blocked.queue
    from (select job from waits where on_job = ?1 limit 100) as few
    join blocked on blocked.id = few.job)
