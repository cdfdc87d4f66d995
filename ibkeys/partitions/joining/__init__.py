"""Which ports can join a multicast group: by the MTU and the rate of their link, as OpenSM compares them."""
