"""M_Keys through OpenSM: its options files say the key, level and lease, and it sets them on every port."""
