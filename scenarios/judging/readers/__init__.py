"""What groups go through beside the delivery of records: lag, and what is deleted ahead of them."""
