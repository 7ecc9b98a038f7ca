"""What every client has: connections to nodes, and metadata of the cluster."""
