"""Durable jobs in turn: every key its own lane, every lane in order, on SQLite or PostgreSQL."""

__version__ = "0.1.0.dev0"
