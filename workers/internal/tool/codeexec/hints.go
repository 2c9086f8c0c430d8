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
	// Messages of programs that could not reach a network.
	unreached = regexp.MustCompile(`gaierror|urlopen error|(?i:name resolution|name or service not known|nodename nor servname|network is unreachable)|` +
		`\b(?:NewConnectionError|MaxRetryError|ConnectError|ConnectTimeout|ClientConnector\w*|Connection(?:Refused|Reset|Aborted)?Error)\b|` +
		`externally-managed-environment|No module named '?pip\b`)
	// Creating a network socket fails with the same error as many other operations. The error is
	// treated as a network error only if the program imports networking modules.
	notPermitted = regexp.MustCompile(`^PermissionError: \[Errno 1\] [\w ]+$`)
	networking   = regexp.MustCompile(`(?m)\b(?:import|from)\s+[\w., ]*\b(?:socket|socketserver|urllib|urllib3|http|ssl|asyncio|ftplib|smtplib|imaplib|poplib|` +
		`telnetlib|xmlrpc|requests|httpx|aiohttp|websockets?|paramiko|psycopg2?|pymysql|redis)\b`)
	// Messages of programs that read standard input, which is empty.
	noMoreInput = regexp.MustCompile(`EOFError: EOF when reading a line|^EOF when reading a line$`)
)

// hints returns explanations of the sandbox limits that a program exceeded, so that the model does
// not try the same again.
func (s *outputBuilder) hints() (hints []string) {
	o := s.outcome
	_, line := s.failure()
	traceback := strings.TrimSpace(o.Traceback)
	last := traceback[strings.LastIndexByte(traceback, '\n')+1:]
	complaint := tail(o.Stderr)

	// Only the last line of a traceback and the end of stderr name the cause of the failure.
	switch {
	// The limit already explains the failure.
	case o.Limit != "":
	case unreached.MatchString(last), unreached.MatchString(complaint), notPermitted.MatchString(line) && networking.MatchString(s.code):
		hints = append(hints, noNetwork)
	case noMoreInput.MatchString(last), noMoreInput.MatchString(complaint):
		hints = append(hints, noInput)
	}

	// A library that retries an allocation uses up the CPU time, which hides the lack of memory.
	if o.Limit == sandbox.LimitCPU && s.limits.Memory > 0 && o.Memory > s.limits.Memory/4*3 {
		hints = append(hints, fmt.Sprintf(spinning, o.Memory>>20, s.limits.Memory>>20))
	}
	return hints
}

// tail returns the last part of a text.
func tail(text string) string {
	const maximum = 4 << 10
	text = strings.TrimSpace(text)
	return text[max(0, len(text)-maximum):]
}
