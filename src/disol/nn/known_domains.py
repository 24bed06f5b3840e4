"""A cache of what was computed for each domain: in training, all of them come again in every epoch."""

from collections.abc import Callable, Iterable
from functools import lru_cache

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from disol.solvers.memory import GIBIBYTE, free_bytes

SHARE = 0.25  # of the free memory, for the cache
MOST_BYTES_OF_HOST = GIBIBYTE
FINGERPRINT_SEED = 20261119

Masks = Bool[Tensor, "domain height width"]
Rows = Float[Tensor, "domain number"]
Fingerprint = tuple[int, int]


class KnownDomains:
    """A cache with a row of numbers for each domain, on the device of its mask, as long as there is room.

    Copies and pickles of it are empty. Masks on another device empty it.
    """

    def __init__(self) -> None:
        self.device: torch.device | None = None
        self.free = 0  # bytes
        self.rows: dict[tuple[object, ...], dict[Fingerprint, Tensor]] = {}

    def __reduce__(self) -> tuple[type["KnownDomains"], tuple[()]]:
        return KnownDomains, ()

    def recall(
        self, masks: Masks, dtype: torch.dtype, find: Callable[[list[int]], Iterable[tuple[Masks, Rows]]]
    ) -> Rows:
        """Return the row of each domain, from the cache or else from `find`.

        find   yields masks and their rows: first those of the cases whose numbers it is given, which are all new; what
               follows is cached too, and requested only while there is room
        """
        if masks.device != self.device:
            self.device, self.free, self.rows = masks.device, room_on(masks.device), {}
        known = self.rows.setdefault((masks.device, dtype, *masks.shape[1:]), {})
        prints = fingerprints(masks)
        rows = {key: known[key] for key in prints if key in known}
        if new := {key: prints.index(key) for key in prints if key not in rows}:
            for number, (found_masks, found) in enumerate(find(list(new.values()))):
                of_found = dict(zip(fingerprints(found_masks), found.unbind(), strict=True))
                if number == 0:
                    rows.update(of_found)
                if found.nbytes > self.free:
                    break
                self.free -= found.nbytes
                for key, row in of_found.items():
                    known.setdefault(key, row)  # keep the first: a symmetric domain is a version of itself
        return torch.stack([rows[key] for key in prints])


def room_on(device: torch.device) -> int:
    """Return how many bytes may be kept on a device."""
    room = int(SHARE * free_bytes(device))
    return room if device.type == "cuda" else min(room, MOST_BYTES_OF_HOST)


def fingerprints(masks: Masks) -> list[Fingerprint]:
    """Return two sums, modulo 2⁶⁴, over the pixels of each domain, of random numbers that belong to the pixels.

    Both sums of two domains agree by chance with a probability of about 2⁻¹²⁸; among a million domains, 10⁻²⁷.
    """
    numbers = _numbers_of_pixels(masks[0].numel(), masks.device)
    sums = (masks.flatten(1)[:, None] * numbers).sum(2)
    return [(first, second) for first, second in sums.tolist()]


@lru_cache(maxsize=8)
def _numbers_of_pixels(count: int, device: torch.device) -> Int[Tensor, "2 {count}"]:
    generator = torch.Generator().manual_seed(FINGERPRINT_SEED)
    return torch.randint(-(2**63), 2**63 - 1, (2, count), generator=generator, device="cpu").to(device)
