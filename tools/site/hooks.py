"""Hooks that MkDocs calls while it builds the site: they add the reference and check links."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(Path(__file__).parent))

from api_pages import PAGES, page  # noqa: E402

LINK = re.compile(r"(?P<text>!?\[[^\]]*\])\((?P<target>[^)#\s]*)(?P<anchor>#[^)]*)?\)")
#: Resources of other servers that a browser would fetch with a page.
FOREIGN = re.compile(
    r"<(?:script|img|iframe|source|audio|video|embed)\b[^>]*\bsrc\s*=\s*[\"']?(?:https?:)?//"
    r"|<link\b(?![^>]*\brel=[\"']?(?:canonical|prev|next|alternate))[^>]*"
    r"\bhref\s*=\s*[\"']?(?:https?:)?//"
    r"|url\(\s*[\"']?(?:https?:)?//|@import\s+[\"'](?:https?:)?//"
)


def from_package() -> dict[str, str]:
    """The pages that the package itself knows; `PACKAGE_PYTHON` runs it."""
    python = os.environ.get("PACKAGE_PYTHON", sys.executable)
    program = [python, str(ROOT / "tools/site/from_package.py")]
    pages: dict[str, str] = json.loads(subprocess.check_output(program))
    return pages


def slug(title: str, separator: str) -> str:
    """Return the anchor that GitHub gives a title, so that a link works on both."""
    return re.sub(r"[^\w -]", "", title).lower().replace(" ", separator)


def inside(markdown: str, folder: Path, docs: Path) -> str:
    """Turn the links of a page into links of the site; links to other files become text."""

    def turned(found: re.Match[str]) -> str:
        text, target, anchor = found["text"], found["target"], found["anchor"] or ""
        if not target or "://" in target:
            return found[0]
        path = (folder / target).resolve()
        if docs in path.parents:
            return f"{text}({path.relative_to(docs).as_posix()}{anchor})"
        return text.strip("![]")

    return LINK.sub(turned, markdown)


def on_config(config: Any) -> Any:
    """Add the classes and functions to the navigation, and name anchors as GitHub does."""
    (reference,) = (part["Reference"] for part in config["nav"] if "Reference" in part)
    names = [*PAGES, "errors.md"]
    reference += [
        "api/options.md",
        "api/causes.md",
        {"Classes and functions": [f"api/{name}" for name in names]},
        "api/matmul.md",
        "api/questions.md",
    ]
    config["mdx_configs"]["toc"]["slugify"] = slug
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the style sheet and the reference."""
    from mkdocs.structure.files import File

    style = (ROOT / "tools/site/site.css").read_text(encoding="utf-8")
    files.append(File.generated(config, "site.css", content=style))
    for name, entry in PAGES.items():
        files.append(File.generated(config, f"api/{name}", content=page(*entry)))
    for path, text in from_package().items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Turn the links of a page that lead out of docs/ into text."""
    docs = Path(config["docs_dir"])
    if page.file.generated_by is not None:
        return markdown
    return inside(markdown, docs, docs)


def on_post_build(config: Any) -> None:
    """Refuse a site that fetches resources of other servers."""
    from mkdocs.exceptions import PluginError

    site = Path(config["site_dir"])
    for path in sorted([*site.rglob("*.html"), *site.rglob("*.css")]):
        found = FOREIGN.search(path.read_text(encoding="utf-8"))
        if found:
            raise PluginError(f"{path.relative_to(site)} fetches from elsewhere: {found[0]}")
