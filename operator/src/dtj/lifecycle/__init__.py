"""Pure: what to do next for a job, from (job, observed, now)."""
