"""Fabrics whose ports are protected."""

from __future__ import annotations

SWITCH_A, SWITCH_B = "MF0;switch-a:IS5023/U1", "Infiniscale-IV Mellanox Technologies"
