"""Splitting a field into its pattern, which networks learn, and its amplitude, for arrays and tensors alike."""

from dataclasses import dataclass
from typing import Literal

from jaxtyping import Bool, Float

from disol._arrays import Array, namespace_of

Fields = Float[Array, "*batch_time field height width"]
Amplitude = Float[Array, "*batch_field"]
Domain = Bool[Array, "*batch height width"]


@dataclass(frozen=True)
class Normalisation:
    """U ↔ (pattern, amplitude).

    "joint"       u = U / a, one amplitude a = max |U| for all components
    "component"   u_c = ½ + ½ U_c / a_c on the domain and 0 outside, an amplitude a_c = max |U_c| for each component

    Fields are [*batch, *time, field, height, width]; all times share one amplitude. A field, or component, that is zero
    has a zero pattern.
    """

    name: Literal["joint", "component"]

    @property
    def per_component(self) -> bool:
        """Tell whether each component has an amplitude of its own."""
        return self.name == "component"

    def amplitude(self, fields: Fields, domain: Domain) -> Amplitude:
        """Max |U| of each case, or of each of its components; fields are 0 outside the domain."""
        batch = domain.ndim - 2
        axes = [axis for axis in range(batch, fields.ndim) if not (self.per_component and axis == fields.ndim - 3)]
        return namespace_of(fields).amax(abs(fields), axis=tuple(axes))

    def to_pattern(self, fields: Fields, amplitude: Amplitude, domain: Domain) -> Fields:
        """Scale fields by their amplitudes."""
        size = self._aligned(amplitude, fields, domain)
        safe = size + (size == 0)
        return self.shifted(fields / safe, domain) * (size > 0)

    def to_field(self, pattern: Fields, amplitude: Amplitude, domain: Domain) -> Fields:
        """Undo `to_pattern`."""
        return self._aligned(amplitude, pattern, domain) * self.centred(pattern, domain)

    def centred(self, pattern: Fields, domain: Domain) -> Fields:
        """Return U / a of a pattern: 0 where U is 0."""
        return (2 * pattern - 1) * _with_axes(domain, pattern) if self.per_component else pattern

    def shifted(self, values: Fields, domain: Domain) -> Fields:
        """Return the pattern of U / a: undo `centred`."""
        return (0.5 + 0.5 * values) * _with_axes(domain, values) if self.per_component else values

    def _aligned(self, amplitude: Amplitude, fields: Fields, domain: Domain) -> Float[Array, "..."]:
        """Reshape amplitudes to broadcast against fields."""
        batch = domain.ndim - 2
        between = [1] * (fields.ndim - batch - 3)  # the time axis, if there is one
        own = namespace_of(fields).asarray(amplitude)
        tail = [own.shape[-1], 1, 1] if self.per_component else [1, 1, 1]
        return own.reshape(*own.shape[:batch], *between, *tail)


def _with_axes(domain: Domain, fields: Fields) -> Bool[Array, "..."]:
    """Reshape domains to broadcast against fields."""
    *batch, height, width = domain.shape
    return domain.reshape(*batch, *[1] * (fields.ndim - domain.ndim), height, width)


JOINT, PER_COMPONENT = Normalisation("joint"), Normalisation("component")
NORMALISATIONS = {each.name: each for each in (JOINT, PER_COMPONENT)}
