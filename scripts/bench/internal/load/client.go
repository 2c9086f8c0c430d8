package load

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// Serve is the client process: a Spec from in, a Result to out.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	var spec Spec
	if err := json.NewDecoder(in).Decode(&spec); err != nil {
		return fmt.Errorf("reading what to send: %w", err)
	}
	result, err := Run(ctx, spec)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(out).Encode(result); err != nil {
		return fmt.Errorf("writing result: %w", err)
	}
	return nil
}

// Client runs the command, which must call Serve, and gives its result and the CPU time it took. The process
// ends with ctx.
func Client(ctx context.Context, spec Spec, command string, args ...string) (*Result, time.Duration, error) {
	raw, err := json.Marshal(spec)
	if err != nil {
		return nil, 0, fmt.Errorf("writing what to send: %w", err)
	}
	var out, complaint bytes.Buffer
	cmd := exec.CommandContext(ctx, command, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(raw), &out, &complaint
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, 0, fmt.Errorf("running client: %w: %s", err, bytes.TrimSpace(complaint.Bytes()))
	}
	result := new(Result)
	if err := json.Unmarshal(out.Bytes(), result); err != nil {
		return nil, 0, fmt.Errorf("reading the client's result: %w", err)
	}
	return result, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
}
