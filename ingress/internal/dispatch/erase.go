package dispatch

import (
	"context"

	"parley/shared/store"
)

// EraseSession erases a session. Whoever carries out one of its open runs is stopped, and whoever waits for one
// is told that it was erased.
func (d *Dispatcher) EraseSession(ctx context.Context, name store.SessionName) error {
	ended, err := d.store.EraseSession(ctx, name)
	d.tell(ctx, ended)
	return refusal(err)
}
