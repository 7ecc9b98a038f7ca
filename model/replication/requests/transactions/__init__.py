"""What leaders do for transactions: markers, and what an operator may ask about producers."""
