"""The sticky assignors (AbstractStickyAssignor)."""
