package plain

import (
	"context"
	"strings"

	"parley/workers/internal/document"
	"parley/workers/internal/parse"
	"parley/workers/internal/parse/charset"
)

// Limits of delimited values.
const (
	maxQuoted  = 256 << 10 // maximum number of bytes in a quoted cell; if no closing quote follows within them, the quote is ordinary text
	maxScanned = 32 << 20  // maximum number of bytes scanned in vain for closing quotes; beyond that, quotes are text
	maxCells   = 16_384    // cells of a row
	sampleRows = 50        // number of rows from which the delimiter is detected
)

// CSV reads delimited values and detects the delimiter.
func CSV(ctx context.Context, in parse.Input, out *parse.Writer) (document.Info, error) {
	return document.Info{}, table(ctx, in, out, 0)
}

// TSV reads tab-separated values.
func TSV(ctx context.Context, in parse.Input, out *parse.Writer) (document.Info, error) {
	return document.Info{}, table(ctx, in, out, '\t')
}

// table reads delimited values. If delimiter is 0, it is detected.
func table(ctx context.Context, in parse.Input, out *parse.Writer, delimiter byte) error {
	text, _ := charset.Decode(in.Content, in.Charset)
	text = parse.Lines(text)
	if l, rest, found := strings.Cut(text, "\n"); found && len(l) == 5 && strings.EqualFold(l[:4], "sep=") { // written by Excel
		delimiter, text = l[4], rest
	}

	// Some programs write other delimiters into files with the extension .tsv.
	if delimiter == 0 || delimiter == '\t' && !strings.Contains(text, "\t") {
		delimiter = delimiterFor(text)
	}
	return rowsFor(ctx, records{text: text, delimiter: delimiter}, out)
}

// rowsFor writes the rows: titles above the table, its header, and its data.
func rowsFor(ctx context.Context, rows records, out *parse.Writer) error {
	widest := usualWidth(rows)
	first := true
	for n := 0; rows.more(); n++ {
		cells := rows.next()
		if n%1000 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		var err error
		switch {
		case parse.Cells(cells) == "":
			continue
		case first && widest > 1 && filled(cells) == 1: // a title above the table
			err = out.Paragraph(strings.Join(cells, " "))
		default:
			err = out.Row(cells, first && parse.NamesColumns(cells, widest))
			first = false
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// records splits a text into rows.
type records struct {
	text      string
	delimiter byte
	scanned   int // bytes scanned without finding a closing quote
}

// more reports whether there is another row.
func (r *records) more() bool { return r.text != "" }

// next reads a row. A quoted cell may contain delimiters, newlines and doubled quotes.
func (r *records) next() []string {
	var cells []string
	for {
		cell, end := r.cell()
		if len(cells) < maxCells {
			cells = append(cells, cell)
		}
		if end {
			return cells
		}
	}
}

// cell reads a cell. end is true if it was the last cell in its row.
func (r *records) cell() (cell string, end bool) {
	// Spaces before an opening quote are allowed, but only a few.
	body := strings.TrimLeft(r.text[:min(len(r.text), 64)], " ")
	if strings.HasPrefix(body, `"`) && r.scanned < maxScanned {
		body = r.text[min(len(r.text), 64)-len(body)+1:]
		if cell, after, ok := quoted(body, r.delimiter); ok {
			return cell, r.pass(after)
		}
		r.scanned += min(len(body), maxQuoted)
	}

	// A cell without quotes ends at the next delimiter or line end.
	i := strings.IndexAny(r.text, string(rune(r.delimiter))+"\n")
	if i < 0 {
		i = len(r.text)
	}

	cell = r.text[:i]
	return cell, r.pass(r.text[i:])
}

// pass skips the character after a cell. It returns true at the end of the row.
func (r *records) pass(rest string) (end bool) {
	if rest == "" {
		r.text = ""
		return true
	}
	r.text = rest[1:]
	return rest[0] == '\n'
}

// quoted reads a cell up to its closing quote. ok is false if there is no closing quote that is
// followed by a delimiter or the end of the row.
func quoted(s string, delimiter byte) (cell, after string, ok bool) {
	head := s[:min(len(s), maxQuoted)]
	for i := 0; i < len(head); i++ {
		n := strings.IndexByte(head[i:], '"')
		if n < 0 {
			break
		}
		i += n

		// Two quotes in a quoted cell mean one quote.
		if i+1 < len(s) && s[i+1] == '"' {
			i++
			continue
		}
		rest := strings.TrimLeft(s[i+1:min(len(s), i+1+64)], " ")
		if rest == "" || rest[0] == delimiter || rest[0] == '\n' {
			return strings.ReplaceAll(s[:i], `""`, `"`), strings.TrimLeft(s[i+1:], " "), true
		}
	}
	return "", "", false
}

// delimiterFor returns the delimiter with which the numbers of cells in the first rows differ the least.
func delimiterFor(text string) byte {
	best, limit := byte(','), 0
	for _, d := range []byte(",;\t|") {
		rows := records{text: text[:min(len(text), 256<<10)], delimiter: d}
		counts := map[int]int{}
		for range sampleRows {
			if !rows.more() {
				break
			}
			if n := len(rows.next()); n > 1 {
				counts[n]++
			}
		}

		// The number of equally wide rows matters most; the width decides between equal numbers.
		for n, rows := range counts {
			if score := rows*100 + min(n, 50); score > limit {
				best, limit = d, score
			}
		}
	}
	return best
}

// usualWidth returns the most frequent number of cells in the first rows.
func usualWidth(rows records) int {
	counts := map[int]int{}
	best := 0
	for range sampleRows {
		if !rows.more() {
			break
		}
		n := len(rows.next())
		if counts[n]++; counts[n] > counts[best] || counts[n] == counts[best] && n > best {
			best = n
		}
	}
	return best
}

// filled returns the number of cells that contain text.
func filled(cells []string) int {
	n := 0
	for _, c := range cells {
		if strings.TrimSpace(c) != "" {
			n++
		}
	}
	return n
}
