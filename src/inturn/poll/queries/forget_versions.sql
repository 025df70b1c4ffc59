-- Let the next sight of each item be newer than its shadow, whatever version it has.
update poll.shadow set version = '' where source = :source
