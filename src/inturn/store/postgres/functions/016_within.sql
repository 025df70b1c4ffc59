-- Whether this is part of a longer transaction, as settle noted. Such a one puts no lane to sleep:
-- that would hold the lane's tail until the commit, and two transactions that each settle in one
-- lane and enqueue into the other's would wait for each other. A later claim does it.
create or replace function inturn.within() returns boolean language sql stable as $$
    select coalesce(current_setting('inturn.within', true), '') = 'yes'
$$;
