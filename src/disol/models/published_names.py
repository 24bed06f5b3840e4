"""The authors' parameter names, translated to ours."""

import re
from pathlib import Path

import torch

from disol.models.network import Weights, shorten

# Their names and ours, first match wins. The levels of their decoder count from the coarsest, ours from the finest.
RENAMED = (
    (r"fusion\.geom_stem\.", "local_operator.fusion.geometry."),
    (r"fusion\.phys_stem\.", "local_operator.fusion.physics."),
    (r"fusion\.film\.mlp\.", "local_operator.fusion.modulation.coefficients."),
    (r"fusion\.fuse_pw\.", "local_operator.fusion.merge."),
    # Without the split, how the mixing block is called is not known from released weights.
    (r"fusion\.(?:\w+\.)?pw1\.", "local_operator.mixing.expand."),
    (r"fusion\.(?:\w+\.)?norm\.", "local_operator.mixing.norm."),
    (r"fusion\.(?:\w+\.)?gate\.pw\.", "local_operator.mixing.gate."),
    (r"fusion\.(?:\w+\.)?pw2\.", "local_operator.mixing.contract."),
    (r"fusion\.(?:\w+\.)?se\.fc\.0\.", "local_operator.mixing.excitation.squeeze."),
    (r"fusion\.(?:\w+\.)?se\.fc\.2\.", "local_operator.mixing.excitation.excite."),
    (r"head\.", "local_operator.stem."),
    (r"unet\.inc\.", "assembly.encoder.0.block."),
    (r"unet\.downs\.(?P<down>\d+)\.block\.", "assembly.encoder.{level}.block."),
    (r"unet\.ups\.(?P<up>\d+)\.reduce\.", "assembly.decoder.{level}.up.reduce."),
    (r"unet\.ups\.(?P<up>\d+)\.gate\.gate\.", "assembly.decoder.{level}.gate.gate."),
    (r"unet\.ups\.(?P<up>\d+)\.block\.", "assembly.decoder.{level}.block."),
    (r"spatial_attn\.conv\.", "readout.attention.convolution."),
    (r"mlp\.net\.", "readout.head."),
)
# Layers of a block of stencils.
BLOCK_LAYERS = {"conv1.": "0.", "n1.": "1.", "conv2.": "3.", "n2.": "4."}


def rename(published: Weights, source: Path) -> dict[str, torch.Tensor]:
    """Give the authors' weights our names."""
    depth = 1 + len({name.split(".")[2] for name in published if name.startswith("unet.downs.")})
    weights, unknown = {}, []
    for name, weight in published.items():
        ours = our_name(name, depth)
        if ours is None:
            unknown.append(name)
        else:
            # Squeeze-and-excitation runs on vectors there and on 1×1 grids here.
            weights[ours] = weight[..., None] if weight.ndim == 3 else weight
    if unknown:
        raise ValueError(
            f"{source} holds {shorten(unknown)}, which no published DiSOL has. Pass the authors' DiSOL weights; "
            "our own checkpoints are folders, for load_checkpoint."
        )
    return weights


def our_name(published: str, depth: int) -> str | None:
    """Translate one parameter name."""
    for pattern, prefix in RENAMED:
        match = re.match(pattern, published)
        if match is not None:
            levels = match.groupdict()
            level = int(levels["down"]) + 1 if "down" in levels else depth - 2 - int(levels.get("up", 0))
            rest = published[match.end() :]
            for theirs, ours in BLOCK_LAYERS.items():
                rest = ours + rest.removeprefix(theirs) if rest.startswith(theirs) else rest
            return prefix.format(level=level) + rest
    return None
