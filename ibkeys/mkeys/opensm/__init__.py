"""Setting M_Keys through OpenSM: its options files name key, level and lease, and OpenSM sets them on every port."""
