"""What the engine needs from the world, as roles: base classes whose defaults work. Whoever implements one says only what is different
with him; the engine calls every method and asks nobody what he can do."""
