package agenttools

import (
	"strings"

	"parley/shared/id"
)

const (
	maxSlug = 50 // bytes of an agent's name in its tool's: clients have limits, and put names of their own before it
	maxTail = 5  // bytes of an agent's id there
)

// toolNames names the tools of agents. A name says which agent it is to the model that reads it and tells those of one name
// apart; the tail of its id finds the agent when it was renamed.
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

// find gives the agent that a tool's name means: the one that has it, or the only one with its tail, which had it once.
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
	if len(found) != 1 {
		return Agent{}, false
	}
	return found[0], true
}

func tail(agentID string) string {
	suffix := id.Suffix(agentID)
	return suffix[max(0, len(suffix)-maxTail):]
}

// slug makes a name of a-z, 0-9 and _ out of any.
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
