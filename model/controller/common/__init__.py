"""What both controllers and the brokers use: the image, its records, plans for topics."""
