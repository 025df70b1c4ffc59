"""Schedules, sources, and calls to outside APIs."""
