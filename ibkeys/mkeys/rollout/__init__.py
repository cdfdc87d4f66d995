"""M_Keys over all ports of a subnet: mkey-deploy, mkey-rotate and mkey-remove."""
