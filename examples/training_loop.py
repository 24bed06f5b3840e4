"""A training loop of your own over a file of cases: plain torch, all of it in sight."""

import tempfile
from pathlib import Path

import torch

import disol

CASES = 128  # the shipped model has 46,011
RESOLUTION = 32  # and 64
STEPS = 150
BATCH_SIZE = 16
LEARNING_RATE = 3e-3
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "cases.h5"
    disol.generate("poisson", CASES, path, resolution=RESOLUTION, workers=0)
    cases = disol.CaseDataset(path, "train").to_device(DEVICE)  # the whole split, in the memory of the device

    torch.manual_seed(0)
    network = disol.create_model("disol", "poisson").to(DEVICE)
    optimizer = torch.optim.AdamW(network.parameters(), lr=LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, total_steps=STEPS)

    for step in range(STEPS):
        batch = cases.batch(torch.randint(len(cases), (BATCH_SIZE,)))
        prediction = network(batch["inputs"])  # [batch, channel, height, width] to [batch, field, height, width]
        error = (prediction - batch["target"]).flatten(1).norm(dim=1) / batch["target"].flatten(1).norm(dim=1)
        loss = error.mean()  # relative L2 of each case
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 50 == 0:
            print(f"step {step}: loss {loss.item():.3f}")

    evaluation = disol.evaluate(network, path, split="validation", device=DEVICE)

print(evaluation)
print(f"mean relative L2 error in validation: {evaluation.files[0].summaries[0]['rel_l2'].mean:.4f}")
