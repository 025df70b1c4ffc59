-- Lease jobs of one queue.
select * from inturn.claim($1, $2, $3, $4, $5, $6, $7)
