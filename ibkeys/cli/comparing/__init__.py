"""The commands about changes between snapshots: diff, history."""
