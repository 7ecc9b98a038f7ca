"""What a broker does for transactions beside their coordinator: requests, and links to brokers."""
