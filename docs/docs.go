// Package docs contains the pages of Parley's documentation. The service shows them under /docs.
package docs

import "embed"

// Pages contains the pages as Markdown: name.md, and guides/name.md.
//
//go:embed *.md guides/*.md
var Pages embed.FS
