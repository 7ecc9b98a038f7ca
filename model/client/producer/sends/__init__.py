"""What an application sends: records that wait, and batches that it has put together."""
