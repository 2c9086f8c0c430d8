package plain

import (
	"context"
	"strings"

	"parley/workers/internal/document"
	"parley/workers/internal/parse"
	"parley/workers/internal/parse/charset"
)

// Limits on delimited values.
const (
	maxQuoted  = 256 << 10 // maximum number of bytes up to a cell's closing quote; otherwise the opening quote is text
	maxScanned = 32 << 20  // bytes scanned for closing quotes that do not exist, after which all quotes are ordinary text
	maxCells   = 16_384    // cells in a row
	sampleRows = 50        // number of rows from which the delimiter is detected
)

// CSV reads delimited values. It detects the delimiter: a comma, semicolon, tab or vertical bar.
// Rows are written as rows of a table. The first row is the table's header if it names columns. CSV
// fails only if the text exceeds the limits of out, or if ctx ends.
func CSV(ctx context.Context, in parse.Input, out *parse.Writer) (document.Info, error) {
	return document.Info{}, table(ctx, in, out, 0)
}

// TSV reads tab-separated values, or values with another delimiter if the text has no tab.
func TSV(ctx context.Context, in parse.Input, out *parse.Writer) (document.Info, error) {
	return document.Info{}, table(ctx, in, out, '\t')
}

// table reads delimited values. If delimiter is 0, table detects it. A first line such as "sep=;"
// takes precedence over the argument delimiter and over detection.
func table(ctx context.Context, in parse.Input, out *parse.Writer, delimiter byte) error {
	text, _ := charset.Decode(in.Content, in.Charset)
	text = parse.Lines(text)
	if l, rest, found := strings.Cut(text, "\n"); found && len(l) == 5 && strings.EqualFold(l[:4], "sep=") { // Excel writes this line
		delimiter, text = l[4], rest
	}

	// Some programs write other delimiters into files with the extension .tsv, so the delimiter is
	// detected if the text contains no tab.
	if delimiter == 0 || delimiter == '\t' && !strings.Contains(text, "\t") {
		delimiter = delimiterFor(text)
	}
	return rowsFor(ctx, records{text: text, delimiter: delimiter}, out)
}

// rowsFor writes the rows of a table: titles above the table, its header, and its data. Empty rows
// are omitted. It checks ctx every 1,000 rows. The argument rows is passed by value, because the
// first rows are read twice.
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
		case first && widest > 1 && parse.Filled(cells) == 1: // a title above the table
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

// records divides a text into rows. It reads the text from the beginning to the end; a copy is an
// independent reader.
type records struct {
	text      string
	delimiter byte
	scanned   int // bytes scanned for closing quotes that do not exist
}

// more reports whether there is a further row.
func (r *records) more() bool { return r.text != "" }

// next reads a row. A cell in quotes may contain delimiters, newlines and doubled quotes. Cells
// beyond maxCells are dropped.
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

// cell reads a cell. The result end is true if the cell is the last cell of its row. A quote
// without a closing quote belongs to the text of the cell.
func (r *records) cell() (cell string, end bool) {
	// A few spaces before an opening quote are allowed.
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

// pass skips the delimiter or newline after a cell. It returns true at the end of the row.
func (r *records) pass(rest string) (end bool) {
	if rest == "" {
		r.text = ""
		return true
	}
	r.text = rest[1:]
	return rest[0] == '\n'
}

// quoted reads a cell up to its closing quote. The argument s begins after the opening quote. The
// result ok is false if no closing quote is followed by a delimiter or the end of the row, within
// maxQuoted bytes.
func quoted(s string, delimiter byte) (cell, after string, ok bool) {
	head := s[:min(len(s), maxQuoted)]
	for i := 0; i < len(head); i++ {
		n := strings.IndexByte(head[i:], '"')
		if n < 0 {
			break
		}
		i += n

		// In a quoted cell, two quotes stand for one quote.
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

// delimiterFor returns the delimiter for which the first rows have the most similar numbers of
// cells. It returns a comma if no delimiter gives rows with several cells.
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

		// The best delimiter gives the most rows of equal width. Among several equally good
		// delimiters, the one with the widest rows is chosen.
		for n, rows := range counts {
			if score := rows*100 + min(n, 50); score > limit {
				best, limit = d, score
			}
		}
	}
	return best
}

// usualWidth returns the most frequent number of cells in the first rows. If several numbers are
// equally frequent, it returns the largest.
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
