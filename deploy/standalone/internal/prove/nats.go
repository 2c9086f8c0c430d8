package prove

import (
	"context"
	"fmt"
	"time"

	"parley/shared/bus/embedded"
	"parley/shared/config"
	"parley/shared/telemetry"
)

// natsReady is the message that a NATS process logs when it is ready.
const natsReady = "NATS ready"

// NATS is a hidden command that serves NATS with JetStream on loopback. It runs in its own process,
// which can be killed.
type NATS struct {
	config.Logging
	Port int    `required:"" help:"Port on 127.0.0.1 to listen on."`
	Dir  string `required:"" help:"Directory in which NATS stores its streams."`
}

// Run serves NATS until ctx ends. It logs natsReady when clients can connect.
func (n *NATS) Run(ctx context.Context) error {
	log := telemetry.Logger(n.Logging, "nats")
	server, err := embedded.Start(embedded.Config{Dir: n.Dir, Port: n.Port, Log: log})
	if err != nil {
		return fmt.Errorf("starting NATS: %w", err)
	}
	log.Info().Str("address", server.URL()).Msg(natsReady)
	<-ctx.Done()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	return server.Stop(ctx)
}
