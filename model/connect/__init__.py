"""MirrorMaker 2: a client of two clusters that copies topics, and translates groups' offsets."""
