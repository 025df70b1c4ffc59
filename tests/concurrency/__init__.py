"""What must hold when many connections and processes work on one store at the same moment."""
