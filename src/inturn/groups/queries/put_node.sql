-- A node as it is declared now.
insert into groups.node (name, address, concurrency, local)
values (:name, :address, :concurrency, :local)
on conflict (name) do update
set address = excluded.address, concurrency = excluded.concurrency, local = excluded.local
