package codeexec

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"parley/shared/contract"
	"parley/shared/domain"
	"parley/workers/internal/sandbox"
	"parley/workers/internal/tool"
)

const (
	maxCode  = 100_000 // characters
	maxFiles = 32      // files that a call may name
)

const (
	description = "Runs a Python 3 program in a sandbox and returns its output, the value of its last expression, and the files that it " +
		"leaves in its working folder, which the user can open. numpy, pandas and matplotlib may be available, nothing else can be " +
		"installed; there is no network. A plot becomes a file by plt.show() or plt.savefig(name). "
	keepsNothing = "Nothing is kept between calls, neither variables nor files in the folder: a call begins with an empty folder, " +
		"and with those files of earlier calls in this session that it names in `files`. "
	keepsFiles = "Variables are not kept between calls. Files are: the working folder has all files that earlier calls in this session " +
		"have left. "
	hasAttached  = "Files that the user attached to the message are in the folder, under their names. "
	hasDocuments = "Documents that the knowledge tool finds can be there, too: if a call lists a documentId in `files`, the folder contains " +
		"the whole original, under the document's name. "
	orDocuments = " Documents that the folder must also contain, by documentId."
)

// Spec returns the tool's description for models. It mentions all limits that are not 0. documents
// is true if code may read documents of the agent. If the agent keeps files, calls are made one
// after the other, because they share a folder.
func Spec(options domain.CodeTool, limits sandbox.Limits, documents bool) tool.Spec {
	memory, files := keepsNothing, "Files of earlier calls that the working folder must contain, by name or ID."
	if options.KeepFiles {
		memory, files = keepsFiles, "Not needed: all files of earlier calls are in the working folder."
	}
	// A model uses whatever the description offers. So the description mentions documents only if
	// the agent has documents.
	if documents {
		memory, files = memory+hasDocuments, files+orDocuments
	}

	schema := `{"type":"object","properties":{` +
		`"code":{"type":"string","minLength":1,"maxLength":` + strconv.Itoa(maxCode) + `,"description":"The program. Print what you want to know."},` +
		`"files":{"type":"array","maxItems":` + strconv.Itoa(maxFiles) + `,"items":{"type":"string"},"description":"` + files + `"}},` +
		`"required":["code"],"additionalProperties":false}`
	return tool.Spec{
		Name: contract.ToolCodeExecution, Description: description + memory + hasAttached + limitsText(limits), Schema: json.RawMessage(schema),
		Alone: options.KeepFiles,
	}
}

// limitsText lists the limits of a program for the tool's description.
func limitsText(l sandbox.Limits) string {
	var parts []string
	// add appends the description of a limit. The argument some is false if there is no such limit;
	// add then does nothing.
	add := func(some bool, format string, args ...any) {
		if some {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	add(l.CPU > 0, "%s of CPU time", seconds(l.CPU))
	add(l.Wall > 0, "%s in total", seconds(l.Wall))
	add(l.Memory > 0, "%s of memory", size(l.Memory))
	add(l.Processes > 0, "%d processes and threads", l.Processes)
	add(l.Files > 0, "%s of files", size(l.Files))
	add(l.Output > 0, "%s of output", size(l.Output))
	if len(parts) == 0 {
		return "Time, memory, files and output are limited; the result names the limit that ended a program."
	}
	return "A program may use " + strings.Join(parts, ", ") + "."
}

// limitMessage states which limit has ended a program, in a sentence for the model. wall is the
// limit on elapsed time that applied to the call.
func limitMessage(limit sandbox.Limit, l sandbox.Limits, wall time.Duration) string {
	switch limit {
	case sandbox.LimitCPU:
		return fmt.Sprintf("The program used more than %s of CPU time.", seconds(l.CPU))
	case sandbox.LimitWall:
		return fmt.Sprintf("The program ran for longer than %s.", seconds(wall))
	case sandbox.LimitMemory:
		return fmt.Sprintf("The program used more than %s of memory.", size(l.Memory))
	case sandbox.LimitProcesses:
		return fmt.Sprintf("The program had more than %d processes and threads.", l.Processes)
	case sandbox.LimitFiles:
		return fmt.Sprintf("The program's files exceeded %s or %d files.", size(l.Files), l.FileCount)
	case sandbox.LimitOutput:
		return fmt.Sprintf("The program printed more than %s.", size(l.Output))
	default:
		return "The program reached a limit: " + string(limit) + "."
	}
}

// seconds formats a duration in seconds, with one decimal.
func seconds(d time.Duration) string {
	return strconv.FormatFloat(d.Round(100*time.Millisecond).Seconds(), 'f', -1, 64) + " s"
}

// size formats a number of bytes in the largest unit that divides it.
func size(n int64) string {
	for _, unit := range []struct {
		bytes int64
		name  string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n > 0 && n%unit.bytes == 0 {
			return strconv.FormatInt(n/unit.bytes, 10) + " " + unit.name
		}
	}
	return strconv.FormatInt(n, 10) + " bytes"
}
