-- What of a queue keeps it from being dropped: jobs that run, and jobs that are unfinished
-- otherwise, dead letters among them.
create or replace function inturn.holds(p_queue text, out running bigint, out others bigint)
language sql as $$
    select
        (select coalesce(sum(l.unsettled), 0) from inturn.lease l where l.queue = p_queue),
        (
            select n.unfinished
            from inturn.unfinished(p_queue, 2147483647, 'halt', null) n
        )
$$;

-- Take away a slice of the history of a queue that holds nothing; says how many rows.
create or replace function inturn.drop_history(p_queue text, p_rows_max integer) returns bigint
language plpgsql as $$
declare
    v_count bigint;
    v_total bigint;
begin
    with gone as (
        delete from inturn.job j
        using (
            select o.lane, o.position
            from inturn.lane l
            join inturn.job o on o.lane = l.id and o.position < l.cursor
            where l.queue = p_queue
            limit p_rows_max
        ) f
        where j.lane = f.lane and j.position = f.position
        returning j.id
    ), results as (
        delete from inturn.result r using gone g where r.job = g.id
    )
    select count(*) into v_total from gone;
    delete from inturn.cancelled where id in (
        select c.id
        from inturn.cancelled c
        where c.queue = p_queue
          and not exists (select from inturn.job j where j.id = c.id)
        limit p_rows_max);
    get diagnostics v_count = row_count;
    v_total := v_total + v_count;
    delete from inturn.dedupe d
    using (select dedupe from inturn.dedupe where queue = p_queue limit p_rows_max) o
    where d.queue = p_queue and d.dedupe = o.dedupe;
    get diagnostics v_count = row_count;
    return v_total + v_count;
end $$;

-- Drop a queue that holds nothing, and what is left of it. Says what keeps it, if anything does.
--
-- Whoever enqueues has looked at the table of queues, and so has it locked until its transaction
-- ends: with that lock nobody is between seeing the queue and putting a job into it. It is not
-- waited for long, for everybody waits behind it.
create or replace function inturn.drop_queue(p_queue text, out running bigint, out others bigint)
language plpgsql as $$
declare
    v_patience text := current_setting('lock_timeout');
begin
    perform set_config('lock_timeout', '1s', true);
    lock table inturn.queue in access exclusive mode;
    perform set_config('lock_timeout', v_patience, true);
    select h.running, h.others into running, others from inturn.holds(p_queue) h;
    if running > 0 or others > 0 then
        return;
    end if;
    perform inturn.drop_history(p_queue, null);
    delete from inturn.job where lane in (select id from inturn.lane where queue = p_queue);
    delete from inturn.cancelled where queue = p_queue;
    delete from inturn.mark where lane in (select id from inturn.lane where queue = p_queue);
    delete from inturn.tail where queue = p_queue;
    delete from inturn.lane where queue = p_queue;
    delete from inturn.stat where queue = p_queue;
    delete from inturn.start where queue = p_queue;
    delete from inturn.limited where queue = p_queue;
    delete from inturn.depth where queue = p_queue;
    delete from inturn.queue where name = p_queue;
end $$;
