-- oldest version that still works: 1
alter table ledger.payment add column note text;
