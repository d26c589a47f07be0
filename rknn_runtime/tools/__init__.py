"""Programs around a model: doctor, bench, verify, serve."""
