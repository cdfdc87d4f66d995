"""``python -m ibkeys``: the command line."""

from ibkeys.cli import main

if __name__ == "__main__":
    main()
