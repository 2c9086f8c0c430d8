package codeexec

import (
	"fmt"
	"regexp"
	"strings"

	"parley/workers/internal/sandbox"
)

const (
	noNetwork = "Programs have no network, and nothing can be installed."
	noInput   = "Programs have no input."
	spinning  = "Most of the memory was in use (%d of %d MiB); libraries that cannot allocate more may retry endlessly."
)

var (
	// Error messages of programs that failed to reach a network.
	unreached = regexp.MustCompile(`gaierror|urlopen error|(?i:name resolution|name or service not known|nodename nor servname|network is unreachable)|` +
		`\b(?:NewConnectionError|MaxRetryError|ConnectError|ConnectTimeout|ClientConnector\w*|Connection(?:Refused|Reset|Aborted)?Error)\b|` +
		`externally-managed-environment|No module named '?pip\b`)
	// When a program creates a network socket, the operation fails with an error that many other
	// operations also return. The error is treated as a network error only if the program imports
	// networking modules.
	notPermitted = regexp.MustCompile(`^PermissionError: \[Errno 1\] [\w ]+$`)
	networking   = regexp.MustCompile(`(?m)\b(?:import|from)\s+[\w., ]*\b(?:socket|socketserver|urllib|urllib3|http|ssl|asyncio|ftplib|smtplib|imaplib|poplib|` +
		`telnetlib|xmlrpc|requests|httpx|aiohttp|websockets?|paramiko|psycopg2?|pymysql|redis)\b`)
	// Error messages of programs that failed to read standard input, which is empty.
	noMoreInput = regexp.MustCompile(`EOFError: EOF when reading a line|^EOF when reading a line$`)
)

// hints explains the sandbox limits that made a program fail, so that the model does not repeat the
// attempt. It returns nil if no limit is recognized. It searches only the ends of the texts.
func (s *outputBuilder) hints() (hints []string) {
	o := s.outcome
	_, line := s.failure()
	traceback := strings.TrimSpace(o.Traceback)
	last := traceback[strings.LastIndexByte(traceback, '\n')+1:]
	complaint := tail(o.Stderr)

	// The last line of the traceback and the end of standard error state the cause of the failure.
	switch {
	// The exceeded limit already explains the failure.
	case o.Limit != "":
	case unreached.MatchString(last), unreached.MatchString(complaint), notPermitted.MatchString(line) && networking.MatchString(s.code):
		hints = append(hints, noNetwork)
	case noMoreInput.MatchString(last), noMoreInput.MatchString(complaint):
		hints = append(hints, noInput)
	}

	// A library may retry a failed allocation until the CPU time is used up, so the CPU limit can
	// hide a lack of memory.
	if o.Limit == sandbox.LimitCPU && s.limits.Memory > 0 && o.Memory > s.limits.Memory/4*3 {
		hints = append(hints, fmt.Sprintf(spinning, o.Memory>>20, s.limits.Memory>>20))
	}
	return hints
}

// tail returns the end of a text, at most 4 KiB.
func tail(text string) string {
	const maximum = 4 << 10
	text = strings.TrimSpace(text)
	return text[max(0, len(text)-maximum):]
}
