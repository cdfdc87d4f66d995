"""The archive of a report: it has no key; GUIDs, LIDs and names are hashed on request."""
