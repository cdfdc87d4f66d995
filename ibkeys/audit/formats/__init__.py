"""An audit's report for other readers: JUnit XML and SARIF for machines, one HTML page for people. Text out, no I/O."""
