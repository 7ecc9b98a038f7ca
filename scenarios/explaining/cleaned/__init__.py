"""How records of compacted topics went: which cleaning removed one, and what stands for it."""
