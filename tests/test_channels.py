import pickle

import numpy as np
import pytest

from disol.channels import ChannelLayout

LAYOUT = ChannelLayout("domain", "dirichlet", "source")


def test_a_layout_is_the_tuple_of_its_names():
    assert LAYOUT == ("domain", "dirichlet", "source")
    assert pickle.loads(pickle.dumps(LAYOUT)) == LAYOUT
    assert isinstance(pickle.loads(pickle.dumps(LAYOUT)), ChannelLayout)


def test_selecting_by_name_is_selecting_by_position():
    stacked = np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5)
    assert (LAYOUT.select(stacked, "source") == stacked[:, 2]).all()


def test_a_typing_error_lists_the_names():
    with pytest.raises(ValueError, match="domain, dirichlet, source"):
        LAYOUT.position("sauce")


def test_names_must_differ():
    with pytest.raises(ValueError, match="differ"):
        ChannelLayout("a", "b", "a")
