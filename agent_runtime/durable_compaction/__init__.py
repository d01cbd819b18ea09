"""Compactions of conversations as durable jobs: begun once, resumed, never paid twice."""
