-- What the handler of job $1 returned, or why that is lost, while it is kept; $2 is the time.
-- What has expired is gone at once, whether or not it has been pruned yet.
select value, lost from inturn.result where job = $1::uuid and until > $2::timestamptz
