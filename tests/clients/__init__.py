"""The suites of other people's clients, run against ``kafkasim serve`` (``make clients``)."""
