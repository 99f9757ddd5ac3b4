"""PySpark's stateful APIs over Tidegate's state: the user's ``StatefulProcessor`` and its variables are PySpark's own classes.

Spark's worker talks to its JVM for every access. Here the handle that ``init`` gets answers from the state of the slot itself; nothing of
the user's code has to know.
"""
