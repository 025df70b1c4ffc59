"""``inturn verify``: it keeps quiet about a sound engine, and names what a broken one breaks."""
