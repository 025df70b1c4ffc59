"""An application with tables of its own, for the tests of migrations."""
