"""Applications with effects outside of Kafka, or that watch what goes through it."""
