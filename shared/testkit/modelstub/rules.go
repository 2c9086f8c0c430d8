package modelstub

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"
)

// byRule returns the reply that the directives in a request's prompt determine. The argument nth is
// the number of requests with this prompt so far, including this one.
func byRule(req Request, nth int) Reply {
	reply, tool, rest := parseDirectives(req.Prompt(), nth)
	if n := len(req.Messages); n > 0 && req.Messages[n-1].Role == "tool" {
		last := req.Messages[n-1]
		return Reply{Text: "tool " + calledName(req, last.ToolCallID) + " said: " + last.Content}
	}
	reply.Text = "echo: " + rest
	if tool != "" {
		reply.Text = ""
		reply.ToolCalls = []ToolCall{{ID: "call_" + tool, Name: tool, Arguments: queryArguments(rest)}}
	}
	return reply
}

// parseDirectives parses the directives at the start of a prompt. The result rest is the text after
// the directives.
func parseDirectives(prompt string, nth int) (reply Reply, tool, rest string) {
	rest = prompt
	for {
		head, tail, found := strings.Cut(rest, ":")
		word, value, spaced := strings.Cut(head, " ")
		if !found || !spaced {
			return reply, tool, rest
		}
		switch word {
		case "sleep":
			d, err := time.ParseDuration(value)
			if err != nil {
				return reply, tool, rest
			}
			reply.Delay += d
		case "fault":
			mode, param, times := parseFault(value)
			if times == 0 || nth <= times {
				reply.Fault, reply.Param = mode, param
			}
		case "tool":
			tool = value
		default:
			return reply, tool, rest
		}
		rest = strings.TrimPrefix(tail, " ")
	}
}

// parseFault parses mode[=parameter][*times]. If times is 0, the fault always applies.
func parseFault(s string) (mode, param string, times int) {
	s, count, counted := strings.Cut(s, "*")
	if n, err := strconv.Atoi(count); counted && err == nil {
		times = n
	}
	mode, param, _ = strings.Cut(s, "=")
	return mode, param, times
}

func calledName(req Request, id string) string {
	for _, v := range slices.Backward(req.Messages) {
		for _, c := range v.ToolCalls {
			if c.ID == id {
				return c.Name
			}
		}
	}
	return "?"
}

func queryArguments(query string) string {
	b, err := json.Marshal(map[string]string{"query": query})
	if err != nil { // a string can always be encoded
		return "{}"
	}
	return string(b)
}
