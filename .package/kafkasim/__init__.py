"""A deterministic simulator of Apache Kafka that breaks the cluster on purpose.

The folders ``model``, ``sim``, ``scenarios`` and ``analysis`` of the repository are the packages
``kafkasim.model``, ``kafkasim.sim``, … : links beside this file, so that installation, type
checkers and editors read one and the same tree.
"""
