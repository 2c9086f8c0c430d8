// Package replay makes runs that have ended, whose keys are then asked again.
package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"parley/scripts/bench/internal/load"
	"parley/scripts/bench/internal/parley"
)

const atATime = 16 // clients that make runs

// Ended are runs that have ended: keys and answers, in the same order.
type Ended struct{ Keys, Answers []string }

// Make has n runs carried out, through the API, under the keys that load gives requests of spec.
func Make(ctx context.Context, p *parley.Parley, spec load.Spec, n int) (*Ended, error) {
	out := &Ended{Keys: make([]string, n), Answers: make([]string, n)}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: atATime}}
	defer client.CloseIdleConnections()
	numbers := make(chan int, n)
	for i := range n {
		numbers <- i
	}
	close(numbers)
	errs := make([]error, atATime)
	var all sync.WaitGroup
	for worker := range atATime {
		all.Go(func() {
			for i := range numbers {
				out.Keys[i] = load.Key(spec.Nonce, int64(i)+1)
				if out.Answers[i], errs[worker] = run(ctx, p, client, spec, out.Keys[i]); errs[worker] != nil {
					return
				}
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("making runs: %w", err)
	}
	return out, nil
}

func run(ctx context.Context, p *parley.Parley, client *http.Client, spec load.Spec, key string) (string, error) {
	var answer json.RawMessage
	body := strings.Replace(spec.Body, load.KeyMark, key, 1)
	err := p.Ask(ctx, client, parley.Request{Method: http.MethodPost, Path: spec.Path, Headers: spec.Headers, Body: []byte(body)}, &answer)
	if err == nil && !strings.Contains(string(answer), spec.Expect) {
		err = fmt.Errorf("a run has not ended well: %s", answer)
	}
	return string(answer), err
}
