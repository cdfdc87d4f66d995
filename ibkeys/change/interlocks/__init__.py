"""All interlocks: dangerous consequences of a change, reported before it is made. Their names are in
`ibkeys.change.consent`.
"""
