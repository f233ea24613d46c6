"""The append-only history: what changed, who, when, before and after."""
