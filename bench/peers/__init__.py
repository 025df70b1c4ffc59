"""The peers: other queues, each in an environment of its own, driven through one small interface."""
