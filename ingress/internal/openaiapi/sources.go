package openaiapi

import (
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"unicode/utf8"

	"parley/shared/contract"
	"parley/shared/domain"
)

// View determines how a client sees the sources and files of a run. The handler creates one for
// each request.
type View struct {
	// AppendSources says whether a list of sources and files follows the text of the answer. If it
	// is nil, the agent's setting applies.
	AppendSources *bool
	// Link returns a URL with which anyone can open the file for a limited time. If Link is nil,
	// files have no URLs.
	Link func(fileID string) string
	// BaseURL is the URL at which browsers reach the service, without a trailing slash. The URLs of
	// cited documents begin with it.
	BaseURL string
}

// runFile is a file that a program of the run has created. It is decoded from the output of a call
// of the code interpreter.
type runFile struct {
	// Id, name and media type as the call reports them.
	ID       string `json:"id"`
	Name     string `json:"name"`
	MIMEType string `json:"mimeType"`

	url        string
	start, end int // range of the file's entry in the text, in code points; both are the end of the text if the file has no entry
}

// shownAnswer is an answer in the form that a client sees.
type shownAnswer struct {
	text     string // message of the run, and the appendix
	appendix string // list of sources and files after the message; may be empty
	// All files, including those without an entry.
	files []runFile
}

// answer returns the answer of a completed run. Its positions are in code points. Without a message
// the text is only the appendix.
func (v View) answer(run *domain.Run) shownAnswer {
	message := deref(run.Message)
	files := v.files(run)
	wanted := run.AppendSources
	if v.AppendSources != nil {
		wanted = *v.AppendSources
	}
	if run.Output.JSON() != nil { // the answer is JSON, which an appended list would make invalid
		wanted = false
	}

	var list strings.Builder
	if wanted {
		writeSources(&list, run.Citations)
	}
	length := utf8.RuneCountInString(message)
	for i := range files {
		f := &files[i]
		f.start, f.end = length, length
		// A file without a link is omitted, because its entry would be useless.
		if !wanted || f.url == "" {
			continue
		}
		if !strings.Contains(list.String(), filesHead) {
			list.WriteString(filesHead)
		}
		list.WriteString("\n- ")
		f.start = length + utf8.RuneCountInString(list.String())
		list.WriteString(markdownLink(f))
		f.end = length + utf8.RuneCountInString(list.String())
	}
	return shownAnswer{text: message + list.String(), appendix: list.String(), files: files}
}

// files returns the files that the run's programs have created. If several files have the same
// name, it returns only the last, because that file has replaced the others. Files that no longer
// exist are included, because only the outputs of the calls are read.
func (v View) files(run *domain.Run) []runFile {
	var all []runFile
	at := map[string]int{}
	for _, call := range run.ToolCalls {
		if call.Name != contract.ToolCodeExecution {
			continue
		}
		var output struct {
			Files []runFile `json:"files"`
		}
		if json.Unmarshal(call.Output, &output) != nil {
			continue // the call has no output, so it created no files
		}
		for _, f := range output.Files {
			if v.Link != nil {
				f.url = v.Link(f.ID)
			}
			// A new version of a file has the position in the list that the previous version had.
			if i, again := at[f.Name]; again {
				all[i] = f
				continue
			}
			at[f.Name] = len(all)
			all = append(all, f)
		}
	}
	return all
}

// These are the headings of the two lists in an appendix.
const (
	sourcesHead = "\n\n**Sources**\n"
	filesHead   = "\n\n**Files**\n"
)

// writeSources writes a list of the cited sources in Markdown. Each source is listed once.
// writeSources writes nothing if there are no citations. Numbers are those of the citations in the
// text, so a list may have gaps.
func writeSources(list *strings.Builder, citations []domain.Citation) {
	seen := map[string]bool{}
	for _, c := range citations {
		name := markdownText(c.Title)
		if citedFile(c) == "" {
			name = sourceLink(c)
		} else if c.Page != nil {
			name += fmt.Sprintf(", page %d", *c.Page)
		}
		line := fmt.Sprintf("\n- [%d] %s", c.ID, name)
		// Several citations may refer to the same page, which is listed once.
		if seen[line] {
			continue
		}
		if len(seen) == 0 {
			list.WriteString(sourcesHead)
		}
		seen[line] = true
		list.WriteString(line)
	}
}

// sourceLink returns a link to a cited page in Markdown. If the URL is not an HTTP URL, it returns
// the title without a link.
func sourceLink(c domain.Citation) string {
	u, err := url.Parse(c.URL)
	title := c.Title
	if title == "" {
		title = c.URL
	}
	// A link with another scheme, such as javascript, could execute code in the client.
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return markdownText(title)
	}
	return "[" + markdownText(title) + "](" + markdownURL.Replace(c.URL) + ")"
}

// shownTypes are the media types of files that clients can show as images.
var shownTypes = map[string]bool{"image/png": true, "image/jpeg": true, "image/gif": true, "image/webp": true}

// markdownLink returns a Markdown link to a file, or a Markdown image if the file is an image. The
// URL of the link is valid for a limited time.
func markdownLink(f *runFile) string {
	link := "[" + markdownText(f.Name) + "](" + f.url + ")"
	if shownTypes[f.MIMEType] {
		return "!" + link
	}
	return link
}

// Titles and names come from web pages, documents and programs. Their characters must not be
// interpreted as Markdown or HTML.
var (
	markdownEscapes = strings.NewReplacer(`\`, `\\`, "[", `\[`, "]", `\]`, "*", `\*`, "_", `\_`, "`", "\\`", "<", `\<`, ">", `\>`, "!", `\!`, "|", `\|`)
	markdownURL     = strings.NewReplacer("(", "%28", ")", "%29", "<", "%3C", ">", "%3E", " ", "%20", `"`, "%22", `\`, "%5C")
)

// markdownText returns the text in one line, with all Markdown characters escaped.
func markdownText(s string) string {
	return markdownEscapes.Replace(strings.Join(strings.Fields(s), " "))
}

// appendix matches the lists that View.answer appends. It is matched only against the text from the
// heading on.
var appendix = regexp.MustCompile(`(?:\n\n\*\*Sources\*\*\n(?:\n- \[\d+\] [^\n]+)+)?(?:\n\n\*\*Files\*\*\n(?:\n- !?\[[^\n]+\]\([^\n]+\))+)?\s*$`)

// withoutAppendix removes the appendix from an answer that a client sends back as history.
// Otherwise the appendix would cost tokens, and models would imitate it. If the text after the
// heading does not have exactly the form of an appendix, withoutAppendix removes nothing. The
// heading may then belong to the answer itself.
func withoutAppendix(text string) string {
	// The list of sources precedes the list of files, so the heading of the sources is searched
	// first.
	from := strings.LastIndex(text, sourcesHead)
	if from < 0 {
		from = strings.LastIndex(text, filesHead)
	}
	if from < 0 {
		return text
	}
	if at := appendix.FindStringIndex(text[from:]); at == nil || at[0] != 0 {
		return text
	}
	return text[:from]
}
