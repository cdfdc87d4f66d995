"""Reports for other readers: JUnit XML, SARIF and the documents of SDN04 for machines, HTML pages for people. Only
`folder` writes files."""
