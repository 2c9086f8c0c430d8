package pgserver

import (
	"context"
	"syscall"
	"time"

	"parley/shared/lifecycle/supervise"
)

// StartInstance is like Start, but also returns the server as an instance of a supervised part. It
// returns when the server has recovered from a crash, if any.
func StartInstance(ctx context.Context, config Config) (*supervise.Instance, *Server, error) {
	server, err := Start(ctx, config)
	if err != nil {
		return nil, nil, err
	}

	return &supervise.Instance{
		PID: server.PID(), Done: server.Done(), Ready: func() bool { return true },
		Term: syscall.SIGINT, // fast shutdown, which does not wait for clients to disconnect
		Why: func() string {
			if err := server.Err(); err != nil {
				return err.Error()
			}
			return "stopped"
		},
		End: func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
			defer cancel()
			_ = server.Stop(ctx) // its data is deleted anyway
		},
	}, server, nil
}
