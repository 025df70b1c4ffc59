-- Which process a worker is, so that another of its machine can tell that it is gone.
alter table worker add column process text not null default '';
