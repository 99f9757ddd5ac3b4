"""Histories with a theme: troubles that seldom meet by chance, together and in full strength."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.testing.simulation.checked import checked
from tidegate.testing.simulation.faults import Faults
from tidegate.testing.simulation.judging import Promise
from tidegate.testing.simulation.manner import Manner
from tidegate.testing.simulation.traits import Traits
from tidegate.testing.simulation.world import Verdict

EVERY = 5
"""Of so many seeds of a campaign one has a theme as well."""


@dataclass(frozen=True, slots=True)
class Theme:
    """``manner``, ``traits``: None: what the seed itself says."""

    faults: Faults
    manner: Manner | None = None
    traits: Traits | None = None


THEMES = {
    "a manifest is lost": Theme(Faults(driver_crash=0.2, manifest_lost=0.7, stop=0.05)),
    "a location is set back": Theme(Faults(driver_crash=0.15, location_set_back=0.8, stop=0.05)),
    "queries that change": Theme(Faults(driver_crash=0.3, stop=0.1, slot_crash=0.1, change_query=1.0, rescale=0.5)),
    "queries that change while rows are on their way": Theme(
        Faults(driver_crash=0.2, change_query=1.0, channel_slow=1.0),
        Manner(overtakes=True),
        Traits(several_sinks=True),
    ),
    "rows on their way": Theme(
        Faults(channel_slow=0.9, slot_crash=0.4, rescale=1.0, driver_crash=0.1), Manner(overtakes=True)
    ),
    "at least once": Theme(Faults(slot_crash=0.4, channel_slow=0.9), Manner(Promise.AT_LEAST_ONCE)),
    "functions that fail": Theme(
        Faults(user_function_raises=0.3, slot_crash=0.1, driver_crash=0.1), traits=Traits(python=True)
    ),
    "thousands of keys": Theme(
        Faults(slot_crash=0.3, driver_crash=0.2, rescale=0.8, notice_lost=0.3), traits=Traits(crowded=True)
    ),
    "outer joins": Theme(Faults(slot_crash=0.3, driver_crash=0.2, rescale=0.8), traits=Traits(outer_join=True)),
}


def themed(seed: int, *, keep_trace: bool = False) -> Verdict:
    """The seed under the theme that its number gives it."""
    theme = list(THEMES.values())[seed // EVERY % len(THEMES)]
    return checked(seed, faults=theme.faults, manner=theme.manner, traits=theme.traits, keep_trace=keep_trace)
