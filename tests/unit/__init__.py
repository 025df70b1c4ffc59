"""Pure decisions and nouns, without a store."""
