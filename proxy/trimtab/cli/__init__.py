"""The commands."""

from trimtab.cli.main import main

__all__ = ["main"]
