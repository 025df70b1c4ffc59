"""The PostgreSQL store: the lock protocol of the design as SQL functions, called by asyncpg."""
