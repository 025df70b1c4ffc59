"""The ``inturn`` command."""
