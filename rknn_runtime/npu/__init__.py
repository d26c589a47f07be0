"""Everything that calls a runtime: its library, contexts, memory, models."""
