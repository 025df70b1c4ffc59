-- Accept jobs of several producers that go straight to their lanes, or give up soon.
select lanes, befores
from inturn.accept_plain($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, true)
