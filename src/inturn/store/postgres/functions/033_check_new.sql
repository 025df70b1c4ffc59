-- Refuse ids under which a job is set aside already. In the log they are unique by themselves, but
-- a job outlives its row there when it is parked, dead or cancelled and history is pruned.
create or replace function inturn.check_new(p_ids uuid[]) returns void language plpgsql as $$
begin
    if exists (select from inturn.parked where id = any(p_ids))
        or exists (select from inturn.blocked where id = any(p_ids))
        or exists (select from inturn.dead where id = any(p_ids))
        or exists (select from inturn.cancelled where id = any(p_ids))
    then
        raise exception 'a job of this batch is in the store already'
        using errcode = 'unique_violation';
    end if;
end $$;
