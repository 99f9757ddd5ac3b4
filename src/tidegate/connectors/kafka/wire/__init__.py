"""The requests of Kafka's protocol that the exactly-once sink makes itself: those that end a transaction some other process
prepared, which no client library offers, and those that write messages, which it makes of whole columns.

``codec`` the types of the protocol, ``requests`` and ``producing`` the messages, ``security`` and ``sasl`` who we are, ``connection``
and ``pipeline`` one broker, ``exchange`` many, ``transactions`` what the sink asks for.
"""
