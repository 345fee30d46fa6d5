"""Properties here are arithmetic: how long one example takes on a busy machine says nothing."""

from hypothesis import settings

settings.register_profile("positional", deadline=None)
settings.load_profile("positional")
