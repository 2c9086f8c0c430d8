package run

import (
	"bufio"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/httpapi/transfer"
	"parley/shared/domain"
	"parley/shared/store/rundb"
)

const (
	maxExported        = 10_000 // maximum number of runs of an export
	exportPage         = 25     // number of runs that one statement reads
	exportedCharacters = 10_000 // maximum number of characters of the question and of the answer of a run
	// Size of the buffer in which rows are collected.
	exportBuffer = 64 << 10
	// Maximum duration of an export.
	exportTime = 2 * time.Minute
)

// runWriter writes runs in the format of an export. The order of the calls is: head once, run once
// for each run, and flush. Each method can return an error of the client's connection.
type runWriter interface {
	// head writes what precedes the runs.
	head() error
	// run writes one run.
	run(run *domain.RunSummary) error
	// flush writes what is still buffered.
	flush() error
}

// exportFormats maps the name of each export format to its media type and its writer. currency is
// the currency of the costs.
var exportFormats = map[string]struct {
	media  string
	writer func(w io.Writer, currency string) runWriter
}{
	"csv": {"text/csv; charset=utf-8", func(w io.Writer, currency string) runWriter {
		return csvRuns{csv.NewWriter(w), currency}
	}},
	"jsonl": {"application/jsonl", func(w io.Writer, _ string) runWriter { return jsonRuns{json.NewEncoder(w)} }},
}

// exportFormat reads the parameter export of a list. It returns "" if the parameter is missing. Two
// kinds of problems are added to found: an unknown format, and parameters of pages.
func exportFormat(found *httpx.Problems, c *gin.Context) string {
	format, present := httpx.QueryValue(c, "export", found)
	if !present {
		return ""
	}
	if _, known := exportFormats[format]; !known {
		found.Add("export", httpx.CodeInvalidValue, "must be csv or jsonl")
	}
	for _, paged := range httpx.Paged {
		if _, present := httpx.Query(c)[paged]; present {
			found.Add(paged, httpx.CodeConflict, "cannot be combined with export")
		}
	}
	return format
}

// export responds with a file of the runs that match the filter, newest first. The runs have the
// same form as in lists. At most maxExported runs are written, and long texts are truncated. export
// reads a few runs at a time, as fast as the client receives them. If it fails after the response
// has begun, it aborts the connection. The client then does not mistake a partial file for a
// complete file. The response takes a download slot.
func (l lists) export(c *gin.Context, filter rundb.RunFilter, format string) {
	slot, err := l.Downloads.Enter(transfer.OwnerFor(c), http.NewResponseController(c.Writer))
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	defer l.Downloads.Leave(slot)

	ctx, cancel := context.WithTimeout(c.Request.Context(), exportTime)
	defer cancel()
	org := httpx.Caller(c).OrganizationID

	// The texts are truncated by the statement, so that a page of runs has a bounded size.
	filter.Characters = exportedCharacters
	page, next, err := l.find(ctx, org, filter, exportPage)
	if err != nil {
		httpx.Fail(c, err)
		return
	}

	header := c.Writer.Header()
	header.Set("Content-Type", exportFormats[format].media)
	header.Set("Content-Disposition", `attachment; filename="runs.`+format+`"`)
	out := bufio.NewWriterSize(transfer.NewWriter(c, slot, l.SessionCheck(c)), exportBuffer)
	to := exportFormats[format].writer(out, l.Currency)

	// Write the runs page by page. The next page is read only after this one was written.
	err = to.head()
	for n := 0; err == nil; {
		for i := range page[:min(len(page), maxExported-n)] {
			if err = to.run(&page[i]); err != nil {
				break
			}
		}
		if n += len(page); err != nil || next == "" || n >= maxExported {
			break
		}
		filter.Before = next
		page, next, err = l.find(ctx, org, filter, exportPage)
	}

	if err == nil {
		err = to.flush()
	}
	if err == nil {
		err = out.Flush()
	}

	// An error before the first byte can still be an error response.
	if err != nil {
		begun := c.Writer.Written()
		header.Del("Content-Disposition")
		httpx.Fail(c, err)
		if begun {
			panic(http.ErrAbortHandler)
		}
	}
}

// jsonRuns writes JSON Lines, one run summary per line. Each line has the form of an entry of a
// list of runs.
type jsonRuns struct{ *json.Encoder }

// head writes nothing.
func (jsonRuns) head() error { return nil }

// run writes one line.
func (w jsonRuns) run(run *domain.RunSummary) error { return w.Encode(run) }

// flush writes nothing, because the encoder does not buffer.
func (jsonRuns) flush() error { return nil }

// csvRuns writes a table in CSV.
type csvRuns struct {
	*csv.Writer
	currency string // of the costs
}

// head writes the names of the columns.
func (w csvRuns) head() error {
	return w.Write([]string{
		"id", "status", "createdAt", "startedAt", "finishedAt", "agentId", "templateId", "agentVersion", "sessionId", "triggerType",
		"automationId", "question", "answer", "citations", "toolCalls", "model", "inputTokens", "outputTokens", "costMicros", "finishReason",
		"errorCode", "errorMessage", "attachments", "currency",
	})
}

// run writes a row with the columns of head. It changes texts that spreadsheets would execute; see
// harmless. Lists are joined by separators within one cell.
func (w csvRuns) run(r *domain.RunSummary) error {
	var question, code, message string
	if r.Input != nil {
		question = r.Input.Message
	}
	if r.Error != nil {
		code, message = r.Error.Code, r.Error.Message
	}

	calls := make([]string, len(r.ToolCalls))
	for i, call := range r.ToolCalls {
		calls[i] = call.Name
	}

	files := make([]string, len(r.Attachments))
	for i, file := range r.Attachments {
		files[i] = file.Name
	}

	cells := []string{
		r.ID, string(r.Status), stamp(&r.CreatedAt), stamp(r.StartedAt), stamp(r.FinishedAt), cell(r.AgentID), cell(r.TemplateID),
		cell(r.AgentVersion), r.SessionID, r.Trigger.Type, cell(r.Trigger.AutomationID), question, cell(r.Message),
		strconv.Itoa(r.Citations), strings.Join(calls, " "), r.Usage.Model,
		strconv.FormatInt(r.Usage.InputTokens, 10), strconv.FormatInt(r.Usage.OutputTokens, 10),
		strconv.FormatInt(r.Usage.CostMicros, 10), cell(r.FinishReason), code, message, strings.Join(files, "; "), w.currency,
	}
	for i, text := range cells {
		cells[i] = harmless(text)
	}
	return w.Write(cells)
}

// flush writes the buffered rows.
func (w csvRuns) flush() error {
	w.Flush()
	return w.Error()
}

// cell returns the text of a value, or the empty string for nil. Texts are returned unchanged.
func cell[T any](value *T) string {
	if value == nil {
		return ""
	}
	return fmt.Sprint(*value)
}

// stamp returns the text of a time in UTC with milliseconds, or the empty string for nil.
func stamp(at *domain.Time) string {
	if at == nil {
		return ""
	}
	return at.UTC().Format("2006-01-02T15:04:05.000Z")
}

// harmless returns a text that spreadsheets do not execute. If the text begins like a formula,
// possibly after blanks, harmless prepends an apostrophe. A formula can also begin with a
// full-width sign, because spreadsheets in East Asian languages accept such signs.
func harmless(text string) string {
	begin := strings.TrimLeft(text, " \u00a0\u3000")
	if begin != "" && strings.ContainsRune("=+-@\t\r\n＝＋－＠", []rune(begin)[0]) {
		return "'" + text
	}
	return text
}
