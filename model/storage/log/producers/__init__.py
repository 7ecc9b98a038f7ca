"""What a log knows about its producers: their last batches and their open transactions."""
