"""What log cleaners may remove, and what replicas may lack because of them."""
