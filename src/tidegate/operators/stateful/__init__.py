"""State of user code, by key: values, lists, maps, timers. What the operator ``stateful_process`` is made of."""
