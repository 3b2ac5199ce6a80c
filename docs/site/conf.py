"""Sphinx's configuration of the docs site. `build.py` lays out the pages; nothing is fetched."""

import importlib.metadata

project = "Balancer and emulator"
author = "its contributors"
copyright = "its contributors; Apache 2.0"  # noqa: A001 - Sphinx's name
release = importlib.metadata.version("balancer-emulator")
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_click", "sphinx_copybutton"]
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
default_role = "code"  # docstrings and help texts have Markdown's backticks
highlight_language = "none"
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
toc_object_entries = False
html_theme = "furo"
html_title = f"Balancer and emulator {release}"
html_copy_source = False
html_show_sourcelink = False
