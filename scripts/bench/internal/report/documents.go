package report

import (
	"fmt"
	"strings"
)

// Rates are pages a second, of each round and in the middle.
type Rates struct {
	Median float64   `json:"median"`
	Rounds []float64 `json:"rounds"`
}

// Documents is how fast documents are ingested, beside pdftotext alone on the same file - as it writes plain text, and as it writes
// the places of words, which is what is asked of it - and searched, beside one query
// of the same words over an index of PostgreSQL's own on the same passages.
type Documents struct {
	Pages    int   `json:"pages"` // of a document
	Rounds   int   `json:"rounds"`
	Plain    Rates `json:"pdftotext"`
	Placed   Rates `json:"pdftotextBboxLayout"`
	Ingested Rates `json:"ingested"`

	Passages int  `json:"passages"` // that are searched
	Searches int  `json:"searches"`
	Bare     Took `json:"bare"`    // of passages with any of the words, ordered by ts_rank
	BareAll  Took `json:"bareAll"` // of those with all of the words
	Ours     Took `json:"search"`  // GET /api/knowledge?query=
}

// Compare takes the medians of the rounds.
func (d *Documents) Compare() {
	for _, side := range []*Rates{&d.Plain, &d.Placed, &d.Ingested} {
		side.Median = middle(side.Rounds)
	}
}

func (d *Documents) goals() []Goal {
	pages := d.Ingested.Median
	return []Goal{
		{Clients: 1, Measure: "documents, pages/s / pdftotext", Value: ratio(pages, d.Plain.Median), Limit: 0.6, AtLeast: true},
		{Clients: 1, Measure: "documents, pages/s / pdftotext -bbox-layout", Value: ratio(pages, d.Placed.Median), Limit: 0.6, AtLeast: true},
		{Clients: 1, Measure: "search p99 / one indexed query", Value: ratio(d.Ours.P99, d.Bare.P99), Limit: 2},
	}
}

func (d *Documents) write(b *strings.Builder) {
	fmt.Fprintf(b, "a PDF of %d pages, from the upload to ready, beside pdftotext alone\nmedians of %d rounds, the sides in turn\n\n",
		d.Pages, d.Rounds)
	rates := grid{{"side", "pages/s", "of pdftotext"}}
	for _, side := range []struct {
		name string
		r    Rates
	}{{"pdftotext", d.Plain}, {"pdftotext -bbox-layout", d.Placed}, {Parley, d.Ingested}} {
		rates = append(rates, []string{side.name, fmt.Sprintf("%.0f", side.r.Median), fmt.Sprintf("%.2f", ratio(side.r.Median, d.Plain.Median))})
	}
	rates.write(b)
	fmt.Fprintf(b, "\n%d searches of 3 to 7 words among %d passages, over HTTP, beside a query on the same passages\n\n",
		d.Searches, d.Passages)
	out := grid{{"side", "p50 ms", "p99 ms", "max ms"}}
	for _, side := range []struct {
		name string
		s    Took
	}{{"one query, any word", d.Bare}, {"one query, all words", d.BareAll}, {Parley, d.Ours}} {
		out = append(out, []string{side.name, fmt.Sprintf("%.1f", side.s.P50), fmt.Sprintf("%.1f", side.s.P99), fmt.Sprintf("%.1f", side.s.Max)})
	}
	out.write(b)
}
