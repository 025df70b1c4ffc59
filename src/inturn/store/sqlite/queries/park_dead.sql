-- Let a dead letter without a key wait by itself, with fresh attempts, claimable at once.
insert into parked (id, queue, key, kind, payload, priority, round, attempts_max, timeout_seconds,
                    enqueued_at, run_at, rank_at, delayed)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0)
