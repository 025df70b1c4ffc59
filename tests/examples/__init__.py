"""The examples run as they stand, and the README shows one of them."""
