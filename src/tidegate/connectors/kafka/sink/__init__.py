"""The Kafka sink: slots write, the driver commits what they have prepared."""
