"""inturn and its peers side by side: every contender, measured in turn, written down with plots."""
