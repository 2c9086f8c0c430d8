package workers

import (
	"context"
	"net"
	"slices"
	"strconv"

	"parley/shared/lifecycle"
	"parley/shared/telemetry/status"
)

// addStatus serves the status of the process at the address in METRICS_ADDR, if this setting has a
// value. When ctx ends, the status changes to "not ready". The server of the status stops after all
// other parts of the group. addStatus fails if the address is in use.
func (w *Workers) addStatus(ctx context.Context, group *lifecycle.Group) error {
	if w.cfg.MetricsAddr == "" {
		return nil
	}

	// The process is ready if it can reach the servers that its roles use.
	ready := status.Checks{"nats": w.deps.Bus.Ping}
	if slices.ContainsFunc(w.cfg.Roles, func(role Role) bool { return role != RoleVoice }) { // the role voice needs no database
		ready["postgres"], ready["schema"] = w.deps.Store.Ping, w.deps.Store.CheckSchema
	}

	if slices.Contains(w.cfg.Roles, RoleSweep) {
		ready["jobs"] = w.deps.Bus.CheckJobs
	}

	server, err := status.Listen(ctx, status.Config{
		Address: w.cfg.MetricsAddr, Ready: ready, Metrics: w.deps.Metrics, Log: w.deps.Log,
	})
	if err != nil {
		return err
	}

	// Change the status to "not ready" before the other parts stop, so that no new work arrives.
	context.AfterFunc(ctx, server.Stopping)
	group.Add("metrics", server.Run)
	return nil
}

// ownPorts returns the ports of the service, including the port of this process's status. Agents
// must not send requests to these ports.
func (w *Workers) ownPorts() []int {
	_, name, err := net.SplitHostPort(w.cfg.MetricsAddr)
	if err != nil { // METRICS_ADDR is empty or invalid
		return w.cfg.OwnPorts
	}
	port, err := strconv.Atoi(name)
	if err != nil || port == 0 {
		return w.cfg.OwnPorts
	}
	return append(slices.Clone(w.cfg.OwnPorts), port)
}
