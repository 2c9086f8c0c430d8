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
	maxName   = 64 // what providers take
	hashStart = maxName - 9
)

var (
	fits   = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	unfit  = regexp.MustCompile(`[^a-zA-Z0-9_-]`)
	hashed = regexp.MustCompile(`_[0-9a-f]{8}$`)
)

// Name is what models know a server's tool by: "<server>_<tool>". Where that does not fit, could be read as another
// server's tool, or looks as if it had a hash already, it ends in a hash. It depends on nothing but the agent's list of
// servers, so that a name means the same tool however many of them can be reached.
func Name(servers []domain.MCPServer, server, tool string) string {
	whole := server + "_" + tool
	if fits.MatchString(whole) && !hashed.MatchString(whole) && owners(servers, whole)[0].Name == server {
		return whole
	}
	sum := sha256.Sum256([]byte(server + "\x00" + tool))
	return beginning(whole) + "_" + hex.EncodeToString(sum[:4])
}

// beginning is what of a name is left before a hash.
func beginning(whole string) string {
	whole = unfit.ReplaceAllString(whole, "_")
	return whole[:min(len(whole), hashStart)]
}

// owners gives the servers that a name may belong to, the likeliest, which has the longest name, first.
func owners(servers []domain.MCPServer, name string) []domain.MCPServer {
	var found []domain.MCPServer
	for _, s := range servers {
		if strings.HasPrefix(name, beginning(s.Name+"_")) {
			found = append(found, s)
		}
	}
	slices.SortStableFunc(found, func(a, b domain.MCPServer) int { return len(b.Name) - len(a.Name) })
	return found
}
