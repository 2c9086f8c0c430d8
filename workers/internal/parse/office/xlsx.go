package office

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/xuri/excelize/v2"

	"parley/workers/internal/document"
	"parley/workers/internal/parse"
	"parley/workers/internal/parse/pack"
)

// Limits of a workbook.
const (
	maxUnzipped = 256 << 20  // bytes of all parts when decompressed
	maxCells    = 10_000_000 // maximum number of cells, including empty cells before cells with text
	maxText     = 256 << 20  // maximum total size of the texts of all cells in bytes; many cells may share one text in the file
	lookAhead   = 20         // number of rows from which the width of a table is determined
)

// XLSX reads an Excel workbook. Each sheet is a page whose heading is the name of the sheet. Cells
// contain displayed values: formulas have their last results, and dates in standard formats are in
// ISO 8601.
//
// Hidden sheets are read and mentioned in a note. XLSX checks ctx about every 4,096 cells.
func XLSX(ctx context.Context, in parse.Input, out *parse.Writer) (document.Info, error) {
	a, err := pack.Open(in.Content) // check the archive before the library reads it
	if err != nil {
		return document.Info{}, err
	}
	if err := checkParts(a); err != nil {
		return document.Info{}, err
	}

	info, err := properties(a)
	if err != nil {
		return info, err
	}

	f, err := excelize.OpenReader(bytes.NewReader(in.Content), excelize.Options{
		UnzipSizeLimit: maxUnzipped, UnzipXMLSizeLimit: maxUnzipped, // if the limits are equal, the library writes no temporary files
		ShortDatePattern: "yyyy-mm-dd", LongDatePattern: "yyyy-mm-dd", LongTimePattern: "hh:mm:ss",
	})
	if err != nil {
		return info, unreadable(err)
	}
	defer f.Close()

	w := &workbook{ctx: ctx, file: f, out: out}
	names := f.GetSheetList()
	if err := out.Pages(len(names)); err != nil {
		return info, err
	}
	for i, name := range names {
		if err := out.Page(i + 1); err != nil {
			return info, err
		}
		if err := w.sheet(name); err != nil {
			return info, err
		}
	}
	info.Notes = w.notes
	return info, nil
}

// unreadable converts an error of the library to a failure if the cause is known. It wraps other
// errors. The library reports an exceeded limit only in the text of its error.
func unreadable(err error) error {
	switch {
	case errors.Is(err, excelize.ErrWorkbookFileFormat), errors.Is(err, excelize.ErrWorkbookPassword):
		return &document.Failure{Code: document.Encrypted, Message: "The workbook is protected by a password."}
	case strings.Contains(err.Error(), "unzip size exceeds"):
		return &document.Failure{
			Code: document.TooLarge, Message: fmt.Sprintf("The workbook is larger than %d MiB when decompressed.", maxUnzipped>>20),
		}
	default:
		return fmt.Errorf("opening the workbook: %w", err)
	}
}

// checkParts rejects workbooks whose XML declares entities, as the readers of other formats do. The
// library does not check this. All XML parts count towards the limit on decompressed bytes.
func checkParts(a *pack.Archive) error {
	for _, name := range a.Names() {
		lower := strings.ToLower(name)
		if !strings.HasSuffix(lower, ".xml") && !strings.HasSuffix(lower, ".rels") {
			continue
		}
		content, err := a.Read(name)
		if err != nil {
			return err
		}
		head := content[:min(len(content), 4096)]
		if bytes.Contains(head, []byte("<!DOCTYPE")) || bytes.Contains(head, []byte("<!ENTITY")) {
			return &document.Failure{
				Code: document.Damaged, Message: "The document was rejected: its XML declares custom entities.",
			}
		}
	}
	return nil
}

// workbook is the state of reading a workbook. It belongs to one call of XLSX.
type workbook struct {
	ctx  context.Context //nolint:containedctx // used only during the call to XLSX
	file *excelize.File
	out  *parse.Writer
	// notes are for the person who uploaded the workbook.
	notes []string
	// cells and text are the totals of all sheets so far: the number of cells plus the number of
	// rows, and the bytes of the cells' texts.
	cells int
	text  int
}

// sheet writes the rows of the sheet with the given name, after a heading. It fails with the code
// too_large if the workbook exceeds maxCells or maxText.
func (w *workbook) sheet(name string) error {
	if shown, err := w.file.GetSheetVisible(name); err == nil && !shown {
		w.notes = append(w.notes, fmt.Sprintf("The sheet %q is hidden; its text was read.", parse.Line(name, 100)))
	}
	rows, err := w.file.Rows(name)
	if err != nil {
		w.notes = append(w.notes, fmt.Sprintf("The sheet %q has no cells and was omitted.", parse.Line(name, 100)))
		return nil // a chart sheet, which has no rows
	}
	defer rows.Close()
	t := &sheetRows{out: w.out}
	if err := w.out.Heading(1, name); err != nil {
		return err
	}

	for rows.Next() {
		cells, err := rows.Columns()
		if err != nil {
			return fmt.Errorf("reading a row: %w", err)
		}
		if w.cells += len(cells) + 1; w.cells > maxCells {
			return &document.Failure{
				Code: document.TooLarge, Message: fmt.Sprintf("The sheets have more than the maximum of %d cells.", maxCells),
			}
		}
		// The lower 12 bits of w.cells wrap around about once in 4,096 cells, so ctx is checked
		// that often.
		if w.cells&0xFFF < len(cells)+1 && w.ctx.Err() != nil {
			return w.ctx.Err()
		}

		for _, c := range cells {
			w.text += len(c)
		}
		if w.text > maxText {
			return &document.Failure{Code: document.TooLarge, Message: "The sheets have more text than the maximum."}
		}
		if err := t.add(cells); err != nil {
			return err
		}
	}
	if err := rows.Error(); err != nil {
		return fmt.Errorf("reading rows: %w", err)
	}
	return t.begin()
}

// sheetRows writes the rows of a sheet. It does not write the first rows before the width of the
// table is known. Each sheet has its own value.
type sheetRows struct {
	out *parse.Writer
	// first contains the rows that are not written yet, at most lookAhead.
	first [][]string
	// begun is true if begin was called. Rows are then written immediately.
	begun bool
}

// add writes a row. If begin has not been called yet, add stores the row instead. It ignores empty
// rows.
func (t *sheetRows) add(cells []string) error {
	if parse.Cells(cells) == "" {
		return nil
	}
	if t.begun {
		return t.out.Row(cells, false)
	}
	if t.first = append(t.first, cells); len(t.first) < lookAhead {
		return nil
	}
	return t.begin()
}

// begin writes the rows that add has stored: titles above the table, the table's header, and its
// first rows. Later calls have no effect, so the method sheet also calls begin at the end of each
// sheet.
//
// A row with a single text is a title if other rows are wider. The first wider row is the header if
// it names columns and another row follows.
func (t *sheetRows) begin() error {
	if t.begun {
		return nil
	}
	t.begun = true
	widest := 0
	for _, cells := range t.first {
		widest = max(widest, parse.Filled(cells))
	}

	head := true // true if the next row may be a header
	for i, cells := range t.first {
		var err error
		if head && widest > 1 && parse.Filled(cells) == 1 {
			err = t.out.Paragraph(strings.Join(cells, " "))
		} else {
			err = t.out.Row(cells, head && i+1 < len(t.first) && parse.NamesColumns(cells, widest))
			head = false
		}
		if err != nil {
			return err
		}
	}

	t.first = nil
	return nil
}
