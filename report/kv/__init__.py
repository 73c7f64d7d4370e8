"""The key-value store: SET and GET, eager, by rendezvous and one-sided."""
