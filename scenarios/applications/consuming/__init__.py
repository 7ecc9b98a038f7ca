"""What a user's consumer is made of: poll(), the records it returned, assignors."""
