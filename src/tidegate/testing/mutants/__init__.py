"""Deliberate bugs in the checkpoint protocol, planted one at a time: whoever judges the real code must find each of them."""
