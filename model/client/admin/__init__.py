"""The admin client and its calls."""
