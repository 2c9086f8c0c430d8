package lifecycle

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Context returns a context that the first SIGINT or SIGTERM cancels, with a *SignalError as
// its cause. A second signal exits the process immediately with status 128 plus its number. The
// returned function restores the default handling of the signals.
func Context(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)

	// The channel has room for two signals, because package signal drops signals that do not fit.
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	released := make(chan struct{})
	go watch(signals, released, cancel)

	// The returned function may be called more than once.
	return ctx, func() {
		signal.Stop(signals)
		select {
		case <-released:
		default:
			close(released)
		}
		cancel(context.Canceled)
	}
}

// watch cancels the context at the first signal and exits the process at the second. It returns
// when the channel released is closed.
func watch(signals <-chan os.Signal, released <-chan struct{}, cancel context.CancelCauseFunc) {
	select {
	case received := <-signals:
		cancel(&SignalError{Signal: received})
	case <-released:
		return
	}

	select {
	case received := <-signals:
		status := 1
		if number, ok := received.(syscall.Signal); ok {
			status = 128 + int(number)
		}
		os.Exit(status) //nolint:revive // deep-exit: the purpose of a second signal
	case <-released:
	}
}
