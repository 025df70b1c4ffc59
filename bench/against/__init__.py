"""This version of inturn beside another checkout of it, both in turn in one run.

A measure is a program in this folder that either version can run, on its own interpreter: it
imports `inturn` and the standard library, never `bench`. It gets the URL of an empty store (on
PostgreSQL an empty database), and ends with one line of JSON: a number for each of its rows.
To add one, write the program and name it in `MEASURES` of `__main__.py`.
"""
