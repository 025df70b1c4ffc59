"""An application whose tables need those of another, for the tests of migrations."""
