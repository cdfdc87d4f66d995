"""What changed between snapshots: diff, history."""
