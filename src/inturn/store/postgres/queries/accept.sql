-- Accept jobs, all or none; a ticket for each, in the given order.
select n, id, lane, "position", duplicate
from inturn.accept($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
