"""Variants: Kafka's older or broken rules, one at a time, and the rules of older releases."""
