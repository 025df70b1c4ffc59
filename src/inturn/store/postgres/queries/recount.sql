-- Count anew what stands in the lanes of queues that have many.
select inturn.recount(name) from inturn.queue where inturn.has_many_lanes(name)
