"""`python -m pixtree`: the command line."""

from pixtree.cli.main import main

if __name__ == "__main__":  # processes that this one spawns import it under another name
    main()
