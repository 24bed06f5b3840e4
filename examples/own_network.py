"""A network of your own: any nn.Module from channels to fields can be trained, saved, loaded and evaluated."""

import tempfile
from pathlib import Path

import torch
from torch import Tensor, nn

import disol

CASES = 128
RESOLUTION = 32
EPOCHS = 20


class Stencils(nn.Module):
    """A stack of 3 x 3 stencils at four scales; those on coarser grids see what is farther away."""

    def __init__(self, num_channels: int, num_fields: int, width: int = 16) -> None:
        super().__init__()
        self.enter = nn.Conv2d(num_channels, width, 3, padding=1)
        self.stencils = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(8))
        self.leave = nn.Conv2d(width, num_fields, 1)

    def forward(self, inputs: Tensor) -> Tensor:
        """[batch, channel, height, width] to [batch, field, height, width], zero outside the domain."""
        features = torch.relu(self.enter(inputs))
        for stencil, scale in zip(self.stencils, (1, 2, 4, 8, 8, 4, 2, 1), strict=True):
            coarse = torch.relu(stencil(nn.functional.avg_pool2d(features, scale)))
            features = features + nn.functional.interpolate(coarse, size=inputs.shape[-2:])
        return self.leave(features) * inputs[:, :1]


with tempfile.TemporaryDirectory() as folder:
    path, run = Path(folder) / "cases.h5", Path(folder) / "run"
    disol.generate("poisson", CASES, path, resolution=RESOLUTION, workers=0)
    changes = [f"train.epochs={EPOCHS}", "train.batch_size=16", "train.ema_decay=0.95"]
    print(disol.train("poisson", path, run, model=Stencils, model_settings={"width": 24}, overrides=changes))
    surrogate = disol.load(run, model=Stencils)  # in a module: disol train poisson --model package.module:Stencils
    evaluation = disol.evaluate(surrogate, path)

print(surrogate)
print(f"mean relative L2 error in validation: {evaluation.files[0].summaries[0]['rel_l2'].mean:.4f}")
