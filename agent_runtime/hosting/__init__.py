"""A worker's side of an agent's state: its object, its commits, its reads."""
