"""The SQLite store: one file, one writer at a time, and concurrent calls that share a commit."""
