-- Take back leases that ran out, or whose worker is gone.
select leases, suspects, buried from inturn.reclaim($1, $2, $3)
