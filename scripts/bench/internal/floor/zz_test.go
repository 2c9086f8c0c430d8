package floor

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"parley/scripts/bench/internal/servers"
)

func TestZZ(t *testing.T) {
	ctx := context.Background()
	dir, _ := os.MkdirTemp("/work/main/.cache", "zz")
	defer os.RemoveAll(dir)
	s, err := servers.Start(ctx, servers.Config{Dir: dir, NATS: "/work/main/bin/nats-server", Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop(ctx)
	dsn, _ := s.Database(ctx, "x")
	in, err := newInserter(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	go in.run(ctx)
	for r := range 3 {
		start := time.Now()
		for i := range 1000 {
			if err := in.insert(ctx, fmt.Sprint(r, "-", i), "hello"); err != nil {
				t.Fatal(err)
			}
		}
		t.Log("insert", time.Since(start)/1000)
	}
	nc, js, st, err := openStream(ctx, s.NATSURL(), "x")
	if err != nil {
		t.Fatal(err)
	}
	_ = st
	go RunWorker(ctx, s.NATSURL())
	time.Sleep(time.Second)
	inbox := nats.NewInbox()
	ch := make(chan *nats.Msg, 1)
	nc.Subscribe(inbox+".*", func(m *nats.Msg) { ch <- m })
	for range 3 {
		start := time.Now()
		for i := range 1000 {
			js.PublishMsgAsync(&nats.Msg{Subject: jobs + fmt.Sprint(i), Data: []byte("hello"), Header: nats.Header{replyTo: {inbox}}})
			<-ch
		}
		t.Log("bus", time.Since(start)/1000)
	}
}
