package running_test

import (
	"context"
	"testing"

	"parley/shared/testkit/running"
)

func TestStart(t *testing.T) {
	t.Parallel()
	begun, ended := make(chan struct{}), false
	stop := running.Start(t, func(ctx context.Context) error {
		close(begun)
		<-ctx.Done()
		ended = true
		return nil
	})
	<-begun
	stop()
	stop()
	if !ended {
		t.Error("stop has not waited for the component")
	}
}
