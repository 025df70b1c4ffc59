-- Which process a worker is, so that another of its machine can tell that it is gone.
alter table inturn.worker add column process text not null default '';
