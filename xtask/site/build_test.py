"""Tests what xtask/site/build.py does to pages, and that it notices a link that leads nowhere."""

import pathlib
import tempfile
import unittest

import build as site


class Test(unittest.TestCase):
    def test_a_heading_gets_the_anchor_that_github_gives_it(self):
        seen = {}
        headings = ["## What `up` does & why", "# Signing in", "## Signing in", "## A [link](x.md), `TEAM_NAME`"]
        expected = ["what-up-does--why", "signing-in", "signing-in-1", "a-link-team_name"]
        self.assertEqual([site.slug(heading, seen) for heading in headings], expected)

    def test_lists_get_what_python_markdown_needs(self):
        text = "Some:\n- a\n  more\n  - b\n\n    ```sh\n    x\n    ```\nEnd\n  - c"
        expected = "Some:\n\n- a\n    more\n\n    - b\n\n        ```sh\n        x\n        ```\nEnd\n  - c"
        self.assertEqual(site.indent(text), expected)
        text = "- a\n\n  A paragraph.\n- b\n- c"
        self.assertEqual(site.indent(text), "- a\n\n    A paragraph.\n\n- b\n- c")
        text = "* a\n\n  Values:\n  - b:\n    more\n  - c\n"
        self.assertEqual(site.indent(text), "* a\n\n    Values:\n\n    - b:\n        more\n    - c\n")

    def test_a_link_leads_into_the_site_or_to_the_repository(self):
        files = {"README.md", "docs/concepts.md", "docs/agents/README.md", "SECURITY.md"}
        leads = {
            "concepts.md#names": "concepts.md#names",
            "agents": "agents/index.md",
            "../SECURITY.md#report": "security.md#report",
            "../README.md": "index.md",
            "cli.schema.json": "cli.schema.json",
            "../deploy/helm": "https://github.com/teamwire/teamwire/tree/v1/deploy/helm",
            "../Cargo.toml": "https://github.com/teamwire/teamwire/blob/v1/Cargo.toml",
            "https://example.com/x.md": "https://example.com/x.md",
            "#here": "#here",
        }
        problems = []
        for link, expected in leads.items():
            self.assertEqual(site.target(link, "docs/hosts.md", files, "v1", problems), expected)
        deeper = site.target("../concepts.md", "docs/agents/README.md", files, "v1", problems)
        self.assertEqual(deeper, "../concepts.md")
        self.assertEqual(problems, [])
        site.target("missing.md", "docs/hosts.md", files, "v1", problems)
        self.assertEqual(problems, ["docs/hosts.md: missing.md"])

    def test_a_built_link_that_leads_nowhere_is_a_problem(self):
        with tempfile.TemporaryDirectory() as directory:
            place = pathlib.Path(directory)
            (place / "a").mkdir()
            (place / "a/index.html").write_text('<h1 id="top"></h1>')
            links = ["a/", "a/#top", "a/#gone", "b/", "#self", "a.png", "https://example.com/"]
            (place / "index.html").write_text("".join(f'<a href="{link}"></a>' for link in links))
            problems = []
            site.check(place, problems)
            self.assertEqual(sorted(problems), [f"index.html: {link}" for link in ["#self", "a.png", "a/#gone", "b/"]])


if __name__ == "__main__":
    unittest.main()
