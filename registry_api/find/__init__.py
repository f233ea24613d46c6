"""Find: which versions were made from this dataset, commit or parameter, or hold this file."""
