-- The functions of each version are in a schema of their own, inturn_functions_<hash>, so that
-- programs of several versions work on one database. migrate makes a set, calls it from the public
-- inturn.enqueue, and drops sets that were replaced a week ago and that no worker names.
create table inturn.functions (
    name text collate "C" primary key,  -- the schema they are in
    made_at timestamptz not null default now(),
    replaced_at timestamptz,  -- null: inturn.enqueue calls these
    dropped_at timestamptz
);
alter table inturn.worker add column functions text;

-- Until now there was one set, in inturn itself.
do $$
declare
    f record;
begin
    for f in
        select p.oid::regprocedure as name
        from pg_proc p
        where p.pronamespace = 'inturn'::regnamespace and p.proname in (
            'accept', 'accept_first', 'accept_one', 'accept_plain', 'accept_plain_together',
            'accept_together', 'admit', 'advance_gate', 'append', 'around_cancelled', 'block',
            'bury_blocked', 'bury_head', 'bury_parked', 'by_lane', 'cancel', 'check_bounds',
            'check_jobs', 'check_new', 'claim', 'claim_parked', 'claim_suspects',
            'complete_keyed', 'complete_open', 'complete_parked', 'count_lanes', 'crash_delay',
            'dead_drop', 'dead_retry', 'decide_lane', 'dedupe', 'depth', 'died', 'digest',
            'drop_dead', 'due', 'enqueue', 'enqueue_many', 'extend', 'fit_lane', 'fold_minute',
            'fold_stats', 'forsake', 'free_keys', 'free_open_lane', 'give_back', 'given',
            'has_many_lanes', 'head', 'hold', 'hold_waiting', 'is_halted_on', 'is_set_aside',
            'lane_of', 'lanes_counted', 'lease_lanes', 'lease_parked', 'lessen', 'look_again',
            'lost', 'make_queues', 'mark_finished', 'mend', 'move_due', 'note_starts',
            'open_lane', 'pass', 'pause_lane', 'places', 'progress', 'prune_begin',
            'prune_expired', 'prune_idle', 'prune_jobs', 'prune_lanes', 'quiet', 'rank',
            'react', 'react_noted', 'recheck', 'reclaim', 'reclaim_alone', 'reclaim_lanes',
            'reclaim_runs', 'recount', 'refresh', 'reserve', 'rest', 'rest_leased', 'rouse',
            'run_of', 'running_places', 'set_limits', 'settle', 'settle_head', 'settle_open',
            'settle_others', 'settle_parked', 'settled_lately', 'spare', 'spent', 'spread',
            'state', 'states', 'take_dead', 'take_lanes', 'unblock', 'unfinished', 'uuid7',
            'wake_lanes', 'wake_parked', 'with_error', 'within', 'wrong_fields', 'wrong_job',
            'wrong_payload'
        )
    loop
        execute format('drop function %s', f.name);
    end loop;
end $$;
comment on schema inturn is null;
