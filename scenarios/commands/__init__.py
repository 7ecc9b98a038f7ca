"""The commands of ``kafkasim``, a module per family; ``scenarios/cli.py`` puts them together."""
