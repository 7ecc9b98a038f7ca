"""Who may do what: the authorizer is asked before a request, by a broker or by a controller."""
