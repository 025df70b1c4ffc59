-- oldest version that still works: 14
-- Fresh waits are taken in the order of what is waited for: those for a job whose settle is not
-- committed are passed over together.
drop index inturn.waits_fresh;
create index waits_fresh on inturn.waits (on_job, job) where fresh;
