"""The pure coordinator of one pipeline: ``lifecycle.step(plan, state, event) -> (state, effects)``.

``events`` come in, ``effects`` go out; ``layout`` owns all keys, ``manifest`` all documents, ``recovery`` the choice of
what is restored, ``retention`` what may be deleted. The shell performs effects and reports back as events.
"""
