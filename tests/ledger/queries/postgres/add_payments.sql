insert into ledger.payment (name, account, cents)
select r.name, r.account, r.cents
from jsonb_to_recordset(:rows) as r(name text, account text, cents integer)
