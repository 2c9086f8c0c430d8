package templates

import (
	"embed"
	"errors"

	"parley/shared/domain"
)

// samples contains the documents of a fictitious shop, and two fictitious reports whose figures
// differ.
//
//go:embed samples/*.md
var samples embed.FS

// Samples returns the sample documents, sorted by name. They contain the answers to the suggested
// messages of the demo agent and of the templates with the knowledge tool. The caller owns the
// slice.
func Samples() []domain.Sample {
	entries, err := samples.ReadDir("samples")
	all := make([]domain.Sample, len(entries))
	for i, entry := range entries {
		content, failed := samples.ReadFile("samples/" + entry.Name())
		all[i] = domain.Sample{Name: entry.Name(), MIMEType: "text/markdown", Content: content}
		err = errors.Join(err, failed)
	}
	if err != nil {
		panic(err) // the files are part of the program
	}
	return all
}
