"""Kafka's protocol as values: requests and answers, logins, record batches. No socket, no thread."""
