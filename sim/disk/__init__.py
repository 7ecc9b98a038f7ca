"""The disk of a host: the files port of the model, the page cache, power loss, disk faults."""
