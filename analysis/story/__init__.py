"""The output about a run: its story (events), its verdict, tables as Kafka's tools print them."""
