"""Turns of a conversation: a language model answers, asks for tools, reads what they gave."""
