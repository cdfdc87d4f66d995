"""An open fabric, or a snapshot in its place: finding ports, reading them, taking and comparing snapshots."""
