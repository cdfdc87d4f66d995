"""The site file, ``ibkeys.toml``: values for options that are neither typed nor in the environment.

It is read when click first looks for such a value (`defaults`), but not for a snapshot or a simulated subnet. Man page:
ibkeys.toml(5).
"""

from ibkeys.cli.site.defaults import SiteDefaults as SiteDefaults
from ibkeys.cli.site.defaults import fixed_method as fixed_method
from ibkeys.cli.site.defaults import most_unrehearsed as most_unrehearsed
from ibkeys.cli.site.defaults import refuse_other_subnet as refuse_other_subnet
