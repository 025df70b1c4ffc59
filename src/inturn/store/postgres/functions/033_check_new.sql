-- Whether a job is set aside under one of these ids. In the log they are unique by themselves, but
-- a job outlives its row there when it is parked, dead or cancelled and history is pruned.
create or replace function inturn.is_set_aside(p_ids uuid[]) returns boolean language sql stable
as $$
    select exists (select from inturn.parked where id = any(p_ids))
        or exists (select from inturn.blocked where id = any(p_ids))
        or exists (select from inturn.dead where id = any(p_ids))
        or exists (select from inturn.cancelled where id = any(p_ids))
$$;

-- Refuse ids under which a job is set aside already.
create or replace function inturn.check_new(p_ids uuid[]) returns void language plpgsql as $$
begin
    if inturn.is_set_aside(p_ids) then
        raise exception 'a job of this batch is in the store already'
        using errcode = 'unique_violation';
    end if;
end $$;
