"""``python -m inturn``: the ``inturn`` command, where its script is not on the path."""

from inturn.cli.main import main

if __name__ == "__main__":
    main()
