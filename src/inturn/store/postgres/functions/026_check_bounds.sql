-- Refuse jobs that would take a queue or a keyed lane past its bound. Producers do not wait for one
-- another here, so a bound may be passed by what is being committed at the same moment.
create or replace function inturn.check_bounds(
    p_queues text[], p_keys text[], p_adds integer[]
) returns void language plpgsql as $$
declare
    r record;
    v_depth bigint;
begin
    if not exists (
        select from inturn.queue
        where name = any(p_queues) and num_nonnulls(depth_max, lane_depth_max) > 0
    ) then
        return;
    end if;
    for r in
        select q.name, q.depth_max, sum(j.adds) as adds
        from unnest(p_queues, p_adds) as j(queue, adds)
        join inturn.queue q on q.name = j.queue
        where q.depth_max is not null
        group by q.name, q.depth_max
        having sum(j.adds) > 0
    loop
        v_depth := inturn.depth(r.name);
        if v_depth + r.adds > r.depth_max then
            raise exception 'queue % holds % jobs and may hold %', r.name, v_depth, r.depth_max
            using errcode = 'IT003', detail = jsonb_build_object(
                'queue', r.name, 'key', null, 'depth', v_depth, 'depth_max', r.depth_max,
                'added', r.adds
            )::text;
        end if;
    end loop;
    for r in
        select
            j.queue, j.key, q.lane_depth_max, j.adds,
            coalesce(t.last - l.cursor + 1, 0) - (
                select count(*) from inturn.cancelled c
                where c.lane = l.id and c.position >= l.cursor
            ) as depth
        from (
            select queue, key, sum(adds) as adds
            from unnest(p_queues, p_keys, p_adds) as n(queue, key, adds)
            where key is not null
            group by queue, key
            having sum(adds) > 0
        ) j
        join inturn.queue q on q.name = j.queue and q.lane_depth_max is not null
        left join inturn.tail t on t.queue = j.queue and t.key = j.key
        left join inturn.lane l on l.id = t.lane
    loop
        if r.depth + r.adds > r.lane_depth_max then
            raise exception 'lane % of queue % holds % jobs and may hold %',
                r.key, r.queue, r.depth, r.lane_depth_max
            using errcode = 'IT003', detail = jsonb_build_object(
                'queue', r.queue, 'key', r.key, 'depth', r.depth, 'depth_max', r.lane_depth_max,
                'added', r.adds
            )::text;
        end if;
    end loop;
end $$;
