"""What every benchmark shares: processes, rounds, models, environments, the report."""
