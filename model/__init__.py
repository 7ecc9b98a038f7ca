"""What Kafka does, as machines that a world runs: README.md is the door."""
