package mcp

import (
	"context"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"parley/shared/domain"
	"parley/workers/internal/tool"
)

// Check opens a session with one of the agent's MCP servers and lists the server's tools, without
// the cache. It returns a short description of the result for the person who configures the server.
// If the error is a *tool.Error, its message is public. No tool is called.
func (b *Backend) Check(ctx context.Context, req tool.Request, server domain.MCPServer) (detail string, err error) {
	err = guard(ctx, func() error {
		s, err := b.open(ctx, req, server, "")
		if err != nil {
			return err
		}
		// Only reading the list needs the session.
		defer s.close()

		usable, other := 0, 0
		err = s.pages(ctx, func(t *sdk.Tool) bool {
			if _, ok := read(t, s.redactor); ok {
				usable++
			} else {
				other++
			}
			// A run uses at most maxServerTools tools of a server.
			return usable+other < maxServerTools
		})
		if err != nil {
			return err
		}

		detail = fmt.Sprintf("%d tools, protocol %s", usable, s.InitializeResult().ProtocolVersion)
		if other > 0 {
			detail += fmt.Sprintf("; %d more have names or schemas that cannot be used", other)
		}
		return nil
	})
	return detail, err
}
