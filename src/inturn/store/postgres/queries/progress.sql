-- Say how far a leased job is.
select inturn.progress($1, $2, $3, $4, $5, $6)
