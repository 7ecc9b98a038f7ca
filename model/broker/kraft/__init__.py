"""A broker that follows the metadata log of a KRaft quorum; the combined node."""
