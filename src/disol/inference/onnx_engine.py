"""Running a network by ONNX Runtime on a CPU."""

from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float32
from torch import Tensor

from disol.inference.engine import Engine
from disol.inference.onnx_export import INPUT, require, trace_onnx


class OnnxEngine(Engine):
    """ONNX Runtime: a wait of seconds before the first prediction, then the fastest on a CPU, for any shape."""

    name: ClassVar[str] = "onnx"

    def prepare(self) -> None:
        """Require what it needs."""
        if self.device.type != "cpu":
            raise ValueError(
                f"engine='onnx' runs on a CPU, not on {self.device}. Use device='cpu' or engine='compiled'."
            )
        if self.precision != "float32":
            raise ValueError(f"engine='onnx' computes in float32, not in {self.precision}. Use engine='compiled'.")
        for module in ("onnx", "onnxruntime"):
            require(module)

    @cached_property
    def session(self) -> Any:
        """The exported network, ready to run with as many threads as torch has."""
        runtime = require("onnxruntime")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        # Threads that wait for the next prediction in a busy loop would slow torch down threefold in between.
        options.add_session_config_entry("session.force_spinning_stop", "1")
        return runtime.InferenceSession(trace_onnx(self.network), options, providers=["CPUExecutionProvider"])

    def run(
        self, cases: Float32[Tensor, "batch channel height width"], at_once: int
    ) -> Float32[np.ndarray, "batch ..."]:
        """Predict in NumPy's memory."""
        del at_once
        prediction: np.ndarray = self.session.run(None, {INPUT: cases.numpy()})[0]
        return prediction
