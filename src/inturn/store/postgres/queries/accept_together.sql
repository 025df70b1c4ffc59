-- Accept jobs of several producers, or give up soon.
select n, id, lane, "position", duplicate
from inturn.accept($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, true)
