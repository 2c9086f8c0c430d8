package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"

	"parley/shared/domain"
)

const (
	maxName = 64 // limit of the model providers
	// Position at which the hash is added: "_" and eight digits.
	hashStart = maxName - 9
)

var (
	// Names that providers accept.
	validName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	// Characters that are replaced by "_".
	invalidChars = regexp.MustCompile(`[^a-zA-Z0-9_-]`)
	// An ending that looks like a hash.
	hashSuffix = regexp.MustCompile(`_[0-9a-f]{8}$`)
)

// Name returns the name under which models see a server's tool: "<server>_<tool>". The name ends in
// a hash if the name without the hash would be too long, contain invalid characters, or be
// reserved. It also ends in a hash if the name without the hash could be mistaken for a name with a
// hash, or for the name of another server's tool. The name depends only on the agent's list of
// servers, so it does not change while other servers are unreachable.
func Name(servers []domain.MCPServer, server, tool string) string {
	whole := server + "_" + tool
	usable := validName.MatchString(whole) && !hashSuffix.MatchString(whole) && whole != domain.AnswerTool
	if usable && owners(servers, whole)[0].Name == server {
		return whole
	}
	// The hash covers both complete names, so it differs even if the visible parts are equal.
	sum := sha256.Sum256([]byte(server + "\x00" + tool))
	return beginning(whole) + "_" + hex.EncodeToString(sum[:4])
}

// beginning returns the part of a name that precedes the hash.
func beginning(whole string) string {
	whole = invalidChars.ReplaceAllString(whole, "_")
	return whole[:min(len(whole), hashStart)]
}

// owners returns the servers that may have a tool with the given name, the server with the longest
// name first. A model may have invented the name; the list is then often empty.
func owners(servers []domain.MCPServer, name string) []domain.MCPServer {
	var found []domain.MCPServer
	for _, s := range servers {
		// A name may begin with the names of several servers, for example "a" and "a_b".
		if strings.HasPrefix(name, beginning(s.Name+"_")) {
			found = append(found, s)
		}
	}
	slices.SortStableFunc(found, func(a, b domain.MCPServer) int { return len(b.Name) - len(a.Name) })
	return found
}
