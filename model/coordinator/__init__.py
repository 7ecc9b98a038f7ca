"""What every coordinator needs: which partitions it owns, appends, answers after the commit."""
