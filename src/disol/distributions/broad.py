"""The parts of the broad distribution, which models for general use are trained on: domains, supports, loads.

The named shapes are not part of it: they are the test.
"""

from disol._mixture import Mixture
from disol.distributions.segments import SegmentKind, SegmentSettings, SharedSegments, StraightSides, WholeLoops
from disol.fields import (
    HIGH_FREQUENCY,
    IN_DISTRIBUTION,
    ConstantField,
    LocalField,
    RaisedField,
    RandomField,
    SeenField,
    SummedField,
)
from disol.geometry.placing import PlacedDomains, PlacedHoles, PlacedOutlines, Placing
from disol.geometry.polygons import AroundCentre, Disc, Envelope, Notched, Rectangle, Slot, Slotted

ANYWHERE = Placing(stretch=3.0, turning=0.5, smallest_area=0.1, filling=0.25)
UNBENT = Placing(turning=0.4, smallest_area=0.1, filling=0.35)

OUTLINES = Mixture(
    (
        (0.3, PlacedOutlines(Envelope(rounded=True), ANYWHERE)),
        (
            0.6,
            PlacedOutlines(
                Mixture(
                    (
                        (0.2, Envelope(rounded=False)),
                        (0.2, Rectangle()),
                        (0.2, Notched()),
                        (0.1, Slotted()),
                        (0.2, AroundCentre()),
                        (0.1, Disc()),
                    )
                ),
                ANYWHERE,
            ),
        ),
        (0.1, PlacedOutlines(Rectangle(slenderness=(0.1, 0.35)), UNBENT)),
    )
)
HOLES = PlacedHoles(
    kind=Mixture(
        (
            (0.25, Envelope(rounded=True, points=(8, 12), alpha=(0.2, 0.85))),
            (0.1, Envelope(rounded=False, points=(5, 10), alpha=(0.0, 0.8))),
            (0.15, AroundCentre(corners=(3, 7))),
            (0.15, Rectangle(slenderness=(0.3, 1.0))),
            (0.2, Disc()),
            (0.15, Slot()),
        )
    ),
    placing=Placing(stretch=2.0, turning=0.6),
    count=Mixture(((0.35, 0), (0.35, 1), (0.18, 2), (0.12, 3))),
    size=(0.05, 0.6),
    concentric=0.1,
)
DOMAINS = PlacedDomains(OUTLINES, HOLES)

SUPPORTS: Mixture[SegmentKind] = Mixture(
    (
        (0.2, SharedSegments("outer", count=(1, 1))),
        (0.2, SharedSegments("any")),
        (0.15, SharedSegments("holes", count=(1, 4), share=(0.05, 0.9))),
        (0.1, SegmentSettings(count=(1, 6), length=(0.01, 0.03))),
        (0.2, StraightSides(count=(1, 3))),
        (0.15, WholeLoops()),
    )
)
# Bodies that are held nearly all around hardly move: fixed segments leave room for forces.
FIXED: Mixture[SegmentKind] = Mixture(
    (
        (0.3, SharedSegments("outer", count=(1, 1), share=(0.01, 0.5))),
        (0.15, SharedSegments("any", share=(0.02, 0.5))),
        (0.1, SharedSegments("holes", count=(1, 3), share=(0.05, 0.9))),
        (0.1, SegmentSettings(count=(1, 6), length=(0.01, 0.03))),
        (0.35, StraightSides(count=(1, 1))),
    )
)
LOADED: Mixture[SegmentKind] = Mixture(
    (
        (0.3, SharedSegments("outer", count=(1, 1), share=(0.01, 0.7))),
        (0.15, SharedSegments("any", share=(0.02, 0.7))),
        (0.1, SharedSegments("holes", count=(1, 3), share=(0.05, 0.9))),
        (0.1, SegmentSettings(count=(1, 6), length=(0.01, 0.03))),
        (0.35, StraightSides(count=(1, 2))),
    )
)

ROUGH = SeenField(HIGH_FREQUENCY)
FIELDS: Mixture[RandomField] = Mixture(
    (
        (0.15, ConstantField()),
        (0.2, IN_DISTRIBUTION),
        (0.15, RaisedField(IN_DISTRIBUTION)),
        (0.2, ROUGH),
        (0.05, RaisedField(ROUGH)),
        (0.15, LocalField()),
        (0.05, SummedField(IN_DISTRIBUTION, HIGH_FREQUENCY)),
        (0.05, SummedField(IN_DISTRIBUTION, LocalField())),
    )
)
