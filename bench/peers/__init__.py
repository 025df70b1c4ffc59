"""The peers: other queues, each in an environment of its own, behind one small interface."""
