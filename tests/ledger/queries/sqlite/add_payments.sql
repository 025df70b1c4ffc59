insert into ledger.payment (name, account, cents)
select r.value ->> 'name', r.value ->> 'account', r.value ->> 'cents' from json_each(:rows) r
