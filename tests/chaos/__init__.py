"""Chaos: real producers and real ``inturn work`` processes on one store, while faults happen.

Producers and handlers append to one log; afterwards the simulation's checkers judge what it says.
``python -m tests.chaos`` runs it on both stores.
"""
