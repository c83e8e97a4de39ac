"""`python -m trimtab`: the command where no script is installed; the demo starts its proxy this way."""

from trimtab.cli.main import main

main()
