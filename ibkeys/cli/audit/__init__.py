"""Commands about a whole fabric: audit, harden, report, snapshot, import and export."""
