"""The wire formats that are managed, each in a module or a package of its own: see `dialect`."""
