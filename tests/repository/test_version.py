"""Both packages say which version they are."""

from importlib.metadata import version

import balancer
import emulator


def test_both_packages_tell_the_version_that_is_installed():
    assert balancer.__version__ == emulator.__version__ == version("balancer-emulator")
    assert "__version__" in dir(balancer)
    assert "__version__" in dir(emulator)
