"""What a store is: one suite, run over SQLite and PostgreSQL alike."""
