package voice

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"parley/shared/contract"
	"parley/workers/internal/speech"
)

// TestCausesAreLogged: the log contains the reason of a backend's failure, unless the reason could
// quote speech.
func TestCausesAreLogged(t *testing.T) {
	t.Parallel()
	exit := exec.CommandContext(t.Context(), "false").Run()
	for name, c := range map[string]struct {
		cause error
		want  string // "": nothing is logged
	}{
		"the network": {fmt.Errorf("a secret: %w", &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}), "dial tcp: connection refused"},
		"a certificate": {
			fmt.Errorf("a secret: %w", &tls.CertificateVerificationError{Err: errors.New("expired")}),
			"tls: failed to verify certificate: expired",
		},
		"a program":   {fmt.Errorf("%w: a secret", exit), "exit status 1"},
		"no program":  {fmt.Errorf("a secret: %w", &fs.PathError{Op: "fork/exec", Path: "/bin/x", Err: syscall.ENOENT}), "fork/exec /bin/x: no such file or directory"},
		"the system":  {fmt.Errorf("a secret: %w", syscall.EMFILE), "too many open files"},
		"an answer":   {fmt.Errorf(`400 {"error":"cannot say a secret"}: %w`, io.EOF), ""},
		"a complaint": {errors.New("a secret"), ""},
		"none":        {nil, ""},
	} {
		var log strings.Builder
		s, err := New(Config{MaxSessions: 1}, Deps{Metrics: prometheus.NewRegistry(), Log: zerolog.New(&log)})
		if err != nil {
			t.Fatal(err)
		}
		l := newSession(s, &fakeEnd{}, contract.VoiceOpen{})
		reported := l.failure(&speech.Error{Code: speech.CodeOverloaded, Message: "Busy.", Cause: c.cause}, speech.CodeSpeech)
		if *reported != (contract.VoiceFailure{Code: speech.CodeOverloaded, Message: "Busy."}) {
			t.Errorf("%s: the failure for callers is %+v", name, reported)
		}
		got := log.String()
		if strings.Contains(got, "a secret") || strings.Contains(got, `"cause"`) != (c.want != "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: the log says %s", name, got)
		}
	}
}
