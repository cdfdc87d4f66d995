"""The archive of a report: no key is in it, and GUIDs, LIDs and names are hashed where that was asked for."""
