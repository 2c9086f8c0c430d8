package agenttools

import (
	"strings"

	"parley/shared/id"
)

const (
	maxSlug = 50 // maximum bytes of the agent's name in a tool name; clients add prefixes and limit the length
	maxTail = 5  // maximum bytes of the agent's id in a tool name
)

// toolNames returns the tool names of agents. A tool name contains the agent's name, for the model,
// and the tail of its id. The tail keeps tool names distinct and identifies the agent after it was
// renamed.
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

// find returns the agent with this tool name. If there is none, it returns the agent whose id has
// the tail in the name, if there is exactly one.
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

	// With several candidates, the wrong agent could be called.
	if len(found) != 1 {
		return Agent{}, false
	}
	return found[0], true
}

// tail returns the end of an agent's id, which is its random part.
func tail(agentID string) string {
	suffix := id.Suffix(agentID)
	return suffix[max(0, len(suffix)-maxTail):]
}

// slug reduces a name to a-z, 0-9 and _.
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
