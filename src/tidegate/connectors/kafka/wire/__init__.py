"""The few requests of Kafka's protocol that end a transaction some other process prepared: no client library offers them.

``codec`` the types of the protocol, ``requests`` the messages, ``security`` and ``sasl`` who we are, ``connection`` one
broker, ``transactions`` what the sink asks for.
"""
