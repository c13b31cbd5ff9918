"""`python -m pixtree`: the command line."""

from pixtree.cli.main import main

main()
