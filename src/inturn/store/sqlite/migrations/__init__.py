"""The tables, version by version: files of one number belong to one version."""
