"""The published network as a function of the authors' weights, written from the description of its layers."""

from itertools import pairwise

import torch
from torch.nn import functional


def make_weights(settings, seed=0):
    """Random weights under the authors' names."""
    shapes = {}

    def convolution(name, out, into, kernel, bias):
        shapes[f"{name}.weight"] = (out, into, kernel, kernel)
        if bias:
            shapes[f"{name}.bias"] = (out,)

    def vector(name, size):
        shapes[f"{name}.weight"] = shapes[f"{name}.bias"] = (size,)

    def mixing(name, channels):
        hidden = settings["fusion_expand"] * channels
        convolution(f"{name}.pw1", hidden, channels, 1, bias=False)
        vector(f"{name}.norm", hidden)
        convolution(f"{name}.gate.pw", 2 * hidden, hidden, 1, bias=True)
        convolution(f"{name}.pw2", channels, hidden, 1, bias=False)
        squeezed = max(channels // 16, 4)
        shapes[f"{name}.se.fc.0.weight"], shapes[f"{name}.se.fc.0.bias"] = (squeezed, channels, 1), (squeezed,)
        shapes[f"{name}.se.fc.2.weight"], shapes[f"{name}.se.fc.2.bias"] = (channels, squeezed, 1), (channels,)

    def block(name, into, out):
        for number, before in ((1, into), (2, out)):
            convolution(f"{name}.conv{number}", out, before, 3, bias=False)
            vector(f"{name}.n{number}", out)

    base, depth, into = settings["base_ch"], settings["depth"], settings["in_channels"]
    if settings["split"]:
        geometry, physics, hidden = settings["geom_ch"], settings["phys_ch"], settings["film_hidden"]
        for name, before, out in (("geom", 2, geometry), ("phys", into - 2, physics)):
            for layer, channels in ((0, before), (3, out)):
                convolution(f"fusion.{name}_stem.{layer}", out, channels, 3, bias=False)
                vector(f"fusion.{name}_stem.{layer + 1}", out)
        shapes["fusion.film.mlp.0.weight"], shapes["fusion.film.mlp.0.bias"] = (hidden, geometry), (hidden,)
        shapes["fusion.film.mlp.2.weight"], shapes["fusion.film.mlp.2.bias"] = (2 * physics, hidden), (2 * physics,)
        convolution("fusion.fuse_pw", base, geometry + physics, 1, bias=False)
    mixing("fusion.fuse_refine" if settings["split"] else "fusion", base if settings["split"] else into)
    convolution("head.0", base, base if settings["split"] else into, 3, bias=True)
    convolution("head.2", base, base, 3, bias=True)
    widths = [base * 2**level for level in range(depth)]
    block("unet.inc", base, base)
    for level, width in enumerate(widths[1:]):
        block(f"unet.downs.{level}.block", width // 2, width)
    for level, width in enumerate(reversed(widths[:-1])):
        convolution(f"unet.ups.{level}.reduce", width, 2 * width, 1, bias=True)
        if level < 2:
            convolution(f"unet.ups.{level}.gate.gate.0", width, 2 * width, 1, bias=True)
            vector(f"unet.ups.{level}.gate.gate.1", width)
            convolution(f"unet.ups.{level}.gate.gate.3", width, width, 1, bias=True)
        block(f"unet.ups.{level}.block", 2 * width, width)
    convolution("spatial_attn.conv", 1, 2, settings["SA_kernel"], bias=False)
    layers = [base, *[settings["mlp_hidden"]] * (settings["mlp_layers"] - 1), settings["out_channels"]]
    for layer, (before, after) in enumerate(pairwise(layers)):
        convolution(f"mlp.net.{2 * layer}", after, before, 1, bias=True)
    generator = torch.Generator().manual_seed(seed)
    return {name: 0.3 * torch.randn(shape, generator=generator) for name, shape in shapes.items()}


class PublishedForward:
    """Evaluate the published network."""

    def __init__(self, weights, settings):
        self.weights = weights
        self.settings = settings

    def convolve(self, name, x):
        weight = self.weights[f"{name}.weight"]
        return functional.conv2d(x, weight, self.weights.get(f"{name}.bias"), padding=weight.shape[-1] // 2)

    def normalise(self, name, x, groups=8):
        groups = groups if x.shape[1] % groups == 0 else 1
        return functional.group_norm(x, groups, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"])

    def linear(self, name, x):
        weight = self.weights[f"{name}.weight"]
        return functional.linear(x, weight.reshape(weight.shape[:2]), self.weights[f"{name}.bias"])

    def stem(self, name, x):
        for layer in (0, 3):
            x = functional.gelu(self.normalise(f"{name}.{layer + 1}", self.convolve(f"{name}.{layer}", x)))
        return x

    def block(self, name, x):
        for number in (1, 2):
            x = functional.gelu(self.normalise(f"{name}.n{number}", self.convolve(f"{name}.conv{number}", x)))
        return x

    def mix(self, name, x):
        hidden = functional.gelu(self.normalise(f"{name}.norm", self.convolve(f"{name}.pw1", x), groups=16))
        y = self.convolve(f"{name}.pw2", functional.glu(self.convolve(f"{name}.gate.pw", hidden), dim=1))
        excitation = self.linear(f"{name}.se.fc.2", functional.gelu(self.linear(f"{name}.se.fc.0", y.mean((2, 3)))))
        return x + y * torch.sigmoid(excitation)[:, :, None, None]

    def fuse(self, x):
        if not self.settings["split"]:
            return self.mix("fusion", x)
        geometry, physics = self.stem("fusion.geom_stem", x[:, :2]), self.stem("fusion.phys_stem", x[:, 2:])
        hidden = functional.gelu(self.linear("fusion.film.mlp.0", geometry.mean((2, 3))))
        gamma, beta = self.linear("fusion.film.mlp.2", hidden)[:, :, None, None].chunk(2, dim=1)
        fused = self.convolve("fusion.fuse_pw", torch.cat([geometry, (1 + gamma) * physics + beta], dim=1))
        return self.mix("fusion.fuse_refine", fused)

    def assemble(self, x):
        skips = [self.block("unet.inc", x)]
        for level in range(self.settings["depth"] - 1):
            skips.append(self.block(f"unet.downs.{level}.block", functional.max_pool2d(skips[-1], 2)))
        x = skips.pop()
        for level, skip in enumerate(reversed(skips)):
            name = f"unet.ups.{level}"
            up = functional.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
            up = self.convolve(f"{name}.reduce", up)
            kept = skip
            if level < 2:
                gate = self.convolve(f"{name}.gate.gate.0", torch.cat([skip, up], dim=1))
                gate = functional.gelu(self.normalise(f"{name}.gate.gate.1", gate))
                kept = skip * torch.sigmoid(self.convolve(f"{name}.gate.gate.3", gate))
            x = self.block(f"{name}.block", torch.cat([kept, up], dim=1))
        return x

    def __call__(self, inputs):
        x = self.convolve("head.0", self.fuse(inputs))
        x = self.assemble(self.convolve("head.2", functional.leaky_relu(x, 0.1)))
        summary = torch.cat([x.mean(1, keepdim=True), x.max(1, keepdim=True).values], dim=1)
        x = x * torch.sigmoid(self.convolve("spatial_attn.conv", summary))
        for layer in range(self.settings["mlp_layers"]):
            x = self.convolve(f"mlp.net.{2 * layer}", functional.gelu(x) if layer else x)
        return x * inputs[:, :1]
