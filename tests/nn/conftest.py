"""What Triton's interpreter lacks of bfloat16, for tests of kernels on a CPU."""

import numpy as np
import pytest


@pytest.fixture
def products_of_bfloat16(monkeypatch):
    """Let the interpreter multiply bfloat16: it keeps such numbers as 16 bits, and multiplies those as integers."""
    import triton.language as tl
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

    multiply = InterpreterBuilder.create_dot

    def widened(handle):
        if handle.dtype.scalar != tl.bfloat16:
            return handle
        return TensorHandle((handle.data.astype(np.uint32) << 16).view(np.float32), tl.float32)

    monkeypatch.setattr(
        InterpreterBuilder, "create_dot", lambda self, a, b, *rest: multiply(self, widened(a), widened(b), *rest)
    )


@pytest.fixture
def rounding_to_bfloat16(monkeypatch):
    """Let the interpreter round to bfloat16 as a GPU does: it cuts, and a chain of layers shrinks by 0.3 % in each."""
    import triton.language as tl
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

    narrow = InterpreterBuilder.create_fp_trunc

    def rounded(self, handle, dtype):
        if (handle.dtype.scalar, dtype.scalar) != (tl.float32, tl.bfloat16):
            return narrow(self, handle, dtype)
        bits = np.ascontiguousarray(handle.data).view(np.uint32)
        nearest = (bits + np.uint32(0x7FFF) + (bits >> 16 & 1)) >> 16
        return TensorHandle(nearest.astype(np.uint16), tl.bfloat16)

    monkeypatch.setattr(InterpreterBuilder, "create_fp_trunc", rounded)
