package agenttools

import (
	"strings"

	"parley/shared/id"
)

const (
	maxSlug = 50 // maximum bytes of the agent's name in a tool name; clients add prefixes and limit the total length
	maxTail = 5  // maximum bytes of the agent's id in a tool name
)

// toolNames returns the tool names of agents. A tool name consists of the agent's name, which the
// model understands, and the last characters of the agent's id. These characters make tool names
// unique and identify an agent even after it was renamed. The order is that of the agents.
func toolNames(agents []Agent) []string {
	names := make([]string, len(agents))
	taken := map[string]bool{}
	for i, a := range agents {
		names[i] = slug(a.Name) + "_" + tail(a.ID)
		if taken[names[i]] {
			names[i] = slug(a.Name) + "_" + id.Suffix(a.ID)
		}
		taken[names[i]] = true
	}
	return names
}

// find returns the agent with this tool name. If there is none, it returns the agent whose id ends
// with the characters at the end of the tool name. find returns false unless there is exactly one
// such agent. Clients may use the list of tools for a long time, in which an agent may be renamed.
func find(agents []Agent, name string) (Agent, bool) {
	for i, known := range toolNames(agents) {
		if known == name {
			return agents[i], true
		}
	}

	var found []Agent
	for _, a := range agents {
		if strings.HasSuffix(name, "_"+tail(a.ID)) {
			found = append(found, a)
		}
	}

	// If several agents match, any choice could be wrong.
	if len(found) != 1 {
		return Agent{}, false
	}
	return found[0], true
}

// tail returns the last maxTail characters of an agent's id, which are random. Five characters are
// enough to distinguish the agents of an organization in nearly all cases.
func tail(agentID string) string {
	suffix := id.Suffix(agentID)
	return suffix[max(0, len(suffix)-maxTail):]
}

// slug reduces a name to the characters a-z, 0-9 and _. If no letter or digit remains, it returns
// "agent". The result has at most maxSlug characters. Other characters become one underscore.
func slug(name string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(name) {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "_"):
			b.WriteByte('_')
		}
		if b.Len() == maxSlug {
			break
		}
	}

	if made := strings.Trim(b.String(), "_"); made != "" {
		return made
	}
	return "agent"
}
