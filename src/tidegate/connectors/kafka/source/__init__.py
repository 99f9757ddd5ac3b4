"""The Kafka source: the driver's side finds partitions, the slots' side reads them."""
