"""The commands of ``kafkasim``, a module for each family; README.md describes them."""
