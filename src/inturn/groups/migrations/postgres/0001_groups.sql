-- A group, and who is told when it must be looked at as a whole: `finish` when all has ended,
-- `react` when the job of a step died and wrote nothing down.
create table groups.groups (
  id text primary key,
  name text not null,
  state text not null
    check (state in ('running', 'stopping', 'undoing', 'done', 'undone', 'stuck')),
  pivot text,
  paused_by text,
  paused_at timestamptz,
  paused_but integer,
  reason text,
  steps integer not null,
  finish text,
  react text,
  created_at timestamptz not null,
  ended_at timestamptz,
  check ((state in ('done', 'undone')) = (ended_at is not null))
);
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
  has_verify boolean not null,
  idempotent boolean not null,
  irreversible boolean not null,
  state text not null default 'pending' check (state in (
    'pending', 'running', 'unknown', 'applied', 'not_applied', 'possibly_applied', 'cancelled',
    'skipped', 'to_undo', 'undoing', 'undo_unknown', 'undone', 'not_undone', 'undo_skipped')),
  attempts integer not null default 0,
  undo_attempts integer not null default 0,
  asks integer not null default 0,
  is_doubtful boolean not null default false,
  token bigint not null default 0,
  job text not null,
  undo_job text,
  answer text,
  error text,
  why text,
  began_at timestamptz,
  ended_at timestamptz,
  undo_began_at timestamptz,
  undo_ended_at timestamptz,
  primary key (group_id, number),
  -- An irreversible step is never undone.
  check (not irreversible or state not in ('to_undo', 'undoing', 'undone', 'not_undone'))
);
create unique index groups_step_by_name on groups.step (group_id, name);
create index groups_step_unfinished on groups.step (node) where state in
  ('pending', 'running', 'unknown', 'to_undo', 'undoing', 'undo_unknown');

create table groups.node (
  name text primary key,
  address text,
  concurrency integer,
  local boolean not null default false
);
