"""Running an agent's code: its inbox, the journal of what it did, what it can reach."""
