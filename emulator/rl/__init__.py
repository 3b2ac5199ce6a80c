"""The harness as a Gymnasium environment: whoever learns picks the next job (docs/reinforcement-learning.md).

Importing this registers `emulator/Pick-v0`.
"""

from __future__ import annotations

try:
    import gymnasium
except ImportError as error:
    raise ImportError("emulator.rl needs gymnasium: pip install gymnasium") from error

from emulator.rl.environment import PickEnv
from emulator.rl.vector import PickVectorEnv

__all__ = ["ENVIRONMENT", "PickEnv", "PickVectorEnv"]

ENVIRONMENT = "emulator/Pick-v0"

if ENVIRONMENT not in gymnasium.registry:
    gymnasium.register(
        ENVIRONMENT,
        entry_point="emulator.rl.environment:PickEnv",
        vector_entry_point="emulator.rl.vector:PickVectorEnv",
    )
