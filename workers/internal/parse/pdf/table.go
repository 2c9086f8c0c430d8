package pdf

import (
	"strings"
	"unicode"

	"parley/shared/domain"
	"parley/workers/internal/document"
	"parley/workers/internal/parse"
)

const (
	// minRows is the minimum number of rows of a table. A table with two columns must have
	// minPairRows rows, because two columns may also be separate texts.
	minRows     = 2
	minPairRows = 3
	// sameLine is the maximum vertical distance between cells of the same row, as a fraction of
	// their height.
	sameLine = 0.35
)

// row is a row of a table. It consists of the blocks whose index is at least first and less than
// end. The blocks are side by side, and each has a single line.
type row struct{ first, end int }

// cells returns the total number of cells in rows.
func cells(rows []row) int { return rows[len(rows)-1].end - rows[0].first }

// table returns the rows of the table that begins with the block first, or nil if there is no
// table. It accepts only clear tables. Poppler must output the cells row by row, each cell must be
// a block with one line, and the columns must be consistent. Other text is written in poppler's
// order.
//
// Text that is wrongly written as a table would be harder to understand than a table that is
// written as text.
func (l *layout) table(first int) (rows []row) {
	var columns []box
	for at := first; at < len(l.page.blocks); {
		r := row{at, l.rowEnd(at)}
		if r.end-r.first < 2 || !l.fits(r, &columns) {
			break
		}
		rows = append(rows, r)
		at = r.end
	}

	if len(rows) < minRows || len(columns) == 2 && len(rows) < minPairRows {
		return nil
	}
	return rows
}

// rowEnd returns the index after the last block of the row that begins with the block first. The
// blocks of a row have a single line each, do not overlap, and are at the same height.
func (l *layout) rowEnd(first int) int {
	blocks := l.page.blocks
	end := first
	for ; end < len(blocks) && blocks[end].end-blocks[end].first == 1; end++ {
		if end == first {
			continue
		}
		a, b := blocks[end-1], blocks[end]
		apart := (a.y0 + a.y1 - b.y0 - b.y1) / 2
		limit := sameLine * min(a.height(), b.height())
		beside := a.x1 <= b.x0
		if !l.leftToRight {
			beside = b.x1 <= a.x0
		}
		if !beside || apart > limit || -apart > limit {
			break
		}
	}
	return end
}

// fits reports whether the cells of a row belong to different columns. If so, it widens the columns
// to contain the cells. The first row defines the columns. A cell that overlaps two columns does
// not fit.
func (l *layout) fits(r row, columns *[]box) bool {
	found := make([]int, 0, r.end-r.first)
	for _, cell := range l.page.blocks[r.first:r.end] {
		in := -1
		for i, c := range *columns {
			if cell.x0 < c.x1 && c.x0 < cell.x1 {
				if in >= 0 {
					return false
				}
				in = i
			}
		}
		found = append(found, in)
	}
	return l.widen(r, found, columns)
}

// widen widens columns so that they contain the cells of a row. The argument found contains the
// column of each cell. If there are no columns yet, each cell becomes a column. Otherwise, widen
// returns false if a cell has no column, or if two cells have the same column.
func (l *layout) widen(r row, found []int, columns *[]box) bool {
	begins := len(*columns) == 0
	seen := map[int]bool{}
	for _, in := range found {
		if !begins && (in < 0 || seen[in]) {
			return false
		}
		seen[in] = true
	}

	for i, cell := range l.page.blocks[r.first:r.end] {
		if begins {
			*columns = append(*columns, cell.box)
			continue
		}
		(*columns)[found[i]] = (*columns)[found[i]].with(cell.box)
	}
	return true
}

// writeRows writes a table. The first row is the header if it contains no digits and every other
// row contains a digit. Each row is a block with the box that surrounds its cells.
func (l *layout) writeRows(rows []row) {
	head := !l.hasDigit(rows[0])
	for _, r := range rows[1:] {
		head = head && l.hasDigit(r)
	}

	for i, r := range rows {
		var texts []string
		around := l.page.blocks[r.first].box
		for _, b := range l.page.blocks[r.first:r.end] {
			texts = append(texts, l.page.lineText(l.page.lines[b.first], l.leftToRight))
			around = around.with(b.box)
		}
		bounds := domain.Box{around.x0, around.y0, around.x1, around.y1}
		if l.err == nil {
			l.err = l.put(document.Block{Kind: document.Row, Head: head && i == 0, Text: parse.Cells(texts), Box: &bounds})
		}
	}
}

// hasDigit reports whether a cell of a row contains a digit.
func (l *layout) hasDigit(r row) bool {
	for _, b := range l.page.blocks[r.first:r.end] {
		if strings.IndexFunc(l.page.lineText(l.page.lines[b.first], l.leftToRight), unicode.IsDigit) >= 0 {
			return true
		}
	}
	return false
}
