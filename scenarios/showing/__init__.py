"""What people see of a run: its story, its verdict, tables as Kafka's tools print them."""
