-- A group, and who is told when it must be looked at as a whole: `finish` when all has ended,
-- `react` when the job of a step died and wrote nothing down.
create table groups.groups (
  id text primary key,
  name text not null,
  state text not null
    check (state in ('running', 'stopping', 'undoing', 'done', 'undone', 'stuck')),
  pivot text,
  paused_by text,
  paused_at integer,
  paused_but integer,
  reason text,
  steps integer not null,
  finish text,
  react text,
  created_at integer not null,
  ended_at integer,
  check ((state in ('done', 'undone')) = (ended_at is not null))
) without rowid;
-- One name, one group that is under way.
create unique index groups_by_name on groups.groups (name) where state not in ('done', 'undone');
create index groups_by_time on groups.groups (created_at);

create table groups.step (
  group_id text not null,
  number integer not null,
  name text not null,
  node text not null,
  definition text not null,
  comes_after text not null,
  attempts_max integer not null,
  undo_attempts_max integer not null,
  has_verify integer not null,
  idempotent integer not null,
  irreversible integer not null,
  state text not null default 'pending' check (state in (
    'pending', 'running', 'unknown', 'applied', 'not_applied', 'possibly_applied', 'cancelled',
    'skipped', 'to_undo', 'undoing', 'undo_unknown', 'undone', 'not_undone', 'undo_skipped')),
  attempts integer not null default 0,
  undo_attempts integer not null default 0,
  asks integer not null default 0,
  is_doubtful integer not null default 0,
  token integer not null default 0,
  job text not null,
  undo_job text,
  answer text,
  error text,
  why text,
  began_at integer,
  ended_at integer,
  undo_began_at integer,
  undo_ended_at integer,
  primary key (group_id, number),
  -- An irreversible step is never undone.
  check (not irreversible or state not in ('to_undo', 'undoing', 'undone', 'not_undone'))
) without rowid;
create unique index groups_step_by_name on groups.step (group_id, name);
create index groups_step_unfinished on groups.step (node) where state in
  ('pending', 'running', 'unknown', 'to_undo', 'undoing', 'undo_unknown');

create table groups.node (
  name text primary key,
  address text,
  concurrency integer,
  local integer not null default 0
) without rowid;
