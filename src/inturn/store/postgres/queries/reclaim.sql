-- Take back leases that ran out.
select leases, suspects, buried from inturn.reclaim($1, $2)
