"""`python -m schedgen.cli`."""

from schedgen.cli.app import main

main()
