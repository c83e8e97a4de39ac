"""The commands of the program `trimtab`; `main` is its entry point."""

from trimtab.cli.main import main

__all__ = ["main"]
