"""An open fabric, or a snapshot instead: finding ports, reading them, taking and comparing snapshots."""
