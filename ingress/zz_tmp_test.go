package ingress_test

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/shared/id"
)

func TestTmpMem(t *testing.T) {
	cfg := defaults()
	cfg.BacklogMax = 100000
	r := newRig(t, cfg)
	measure := func() (uint64, uint64, uint64) {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc, m.StackInuse, uint64(runtime.NumGoroutine())
	}
	var mu sync.Mutex
	var conns []net.Conn
	open := func(n int) {
		var wg sync.WaitGroup
		sem := make(chan struct{}, 32)
		for range n {
			sem <- struct{}{}
			wg.Go(func() {
				defer func() { <-sem }()
				conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
				if err != nil {
					t.Error(err)
					return
				}
				body := `{"sessionId":"` + id.New(id.Message) + `","message":"hi","stream":true}`
				fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nX-Api-Key: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", r.chatPath(), r.key, len(body), body)
				b := make([]byte, 16)
				conn.Read(b)
				if !strings.Contains(string(b), "200") {
					t.Error(string(b))
				}
				mu.Lock()
				conns = append(conns, conn)
				mu.Unlock()
			})
		}
		wg.Wait()
	}
	open(100)
	time.Sleep(time.Second)
	h0, s0, g0 := measure()
	open(2000)
	time.Sleep(8 * time.Second)
	h1, s1, g1 := measure()
	t.Logf("heap %.1f KiB, stack %.1f KiB, goroutines %.2f per stream", float64(h1-h0)/2000/1024, float64(s1-s0)/2000/1024, float64(g1-g0)/2000)
	f, _ := os.Create("/tmp/w/c_heap.prof")
	pprof.WriteHeapProfile(f)
	f.Close()
	for _, c := range conns {
		c.Close()
	}
}
