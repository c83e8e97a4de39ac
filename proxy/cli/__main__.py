"""`python -m proxy.cli`: the command where no script is installed; the demo starts its proxy this way."""

from proxy.cli.main import main

main()
