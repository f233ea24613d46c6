"""Objects by digest: one contract, a local directory and S3 behind it."""
