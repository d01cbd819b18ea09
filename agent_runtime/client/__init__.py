"""The way from a Python service to agents: handles, batches, receipts, answers."""
