"""How a scenario gets smaller: delta debugging, and the reductions that use it."""
