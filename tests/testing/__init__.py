"""What inturn gives to the tests of those who use it."""
