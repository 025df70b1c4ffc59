-- Accept a job that goes straight to its lane.
select inturn.accept_one($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
