"""Progressive delivery, run by the registry itself: steps, figures, verdicts."""
