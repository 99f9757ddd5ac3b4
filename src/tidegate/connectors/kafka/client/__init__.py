"""Connections to brokers and the threads that use them.

``security`` who we are, ``connection`` and ``pipeline`` one broker, ``exchange`` many, ``brokers`` questions to a whole cluster,
``fetcher`` what is read ahead, ``sender`` what is written.
"""
