package floor

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/gin-gonic/gin"
)

// ChatEnd is the last line of a chat's event stream.
const ChatEnd = "event: done"

// maxPieces bounds the pieces of one answer that have arrived but are not written yet.
const maxPieces = 1024

// ingress publishes the job of each request, and responds with the replies of a worker.
type ingress struct {
	inserter *inserter // nil for chats
	inbox    *inbox
}

// runIngress serves run-automation requests until ctx ends.
func runIngress(ctx context.Context, c Config) error {
	inbox, err := openInbox(ctx, c.NATSURL, "floor-ingress")
	if err != nil {
		return err
	}
	defer inbox.nc.Close()
	return withInserter(ctx, c.DatabaseURL, func(ctx context.Context, inserter *inserter) error {
		return serve(ctx, c.Address, routes(bound((&ingress{inserter, inbox}).run)))
	})
}

// runChatIngress serves streamed chats until ctx ends.
func runChatIngress(ctx context.Context, c Config) error {
	inbox, err := openInbox(ctx, c.NATSURL, "floor-chat-ingress")
	if err != nil {
		return err
	}
	defer inbox.nc.Close()
	return serve(ctx, c.Address, routes(bound((&ingress{nil, inbox}).stream)))
}

// run inserts a row, publishes a job and responds with the reply.
func (i *ingress) run(c *gin.Context, req *request) {
	ctx, id := c.Request.Context(), i.inbox.newID()
	if err := i.inserter.insert(ctx, id, req.Input.Message); err != nil {
		refuse(c, http.StatusServiceUnavailable, err)
		return
	}

	answer, err := i.inbox.submit(id, req.Input.Message, 1)
	defer i.inbox.forget(id)
	if err != nil {
		refuse(c, http.StatusServiceUnavailable, err)
		return
	}
	select {
	case body := <-answer:
		c.Data(http.StatusOK, "application/json", body)
	case <-ctx.Done():
	}
}

// stream publishes a job and writes each piece of the answer as a server-sent event. Pieces that
// have arrived together are flushed together. An empty reply ends the answer.
func (i *ingress) stream(c *gin.Context, req *request) {
	id := i.inbox.newID()
	pieces, err := i.inbox.submit(id, req.Input.Message, maxPieces)
	defer i.inbox.forget(id)
	if err != nil {
		refuse(c, http.StatusServiceUnavailable, err)
		return
	}

	c.Header("Content-Type", "text/event-stream")
	var event []byte
	for {
		select {
		case piece := <-pieces:
			if len(piece) == 0 {
				_, _ = c.Writer.WriteString(ChatEnd + "\n\n") // on an error, the client reports an incomplete stream
				return
			}
			event = append(append(append(event[:0], "event: message.delta\ndata: "...), piece...), "\n\n"...)
			if _, err := c.Writer.Write(event); err != nil {
				return
			}
			if len(pieces) == 0 {
				c.Writer.Flush()
			}
		case <-c.Request.Context().Done():
			return
		}
	}
}

// parked keeps HTTP requests waiting until they are released. The goroutine of each handler only
// waits on a channel. No service that uses net/http can keep a request waiting with less memory.
type parked struct {
	mu       sync.Mutex
	released chan struct{} // closed to release the waiting requests
	waiting  atomic.Int64
}

// runParked serves requests that wait, until ctx ends.
func runParked(ctx context.Context, c Config) error {
	p := &parked{released: make(chan struct{})}
	router := routes(bound(p.park))
	router.POST(ReleasePath, p.release)
	router.GET(WaitingPath, func(c *gin.Context) { c.JSON(http.StatusOK, p.waiting.Load()) })
	return serve(ctx, c.Address, router)
}

// park waits until the request is released or its client disconnects.
func (p *parked) park(c *gin.Context, req *request) {
	p.mu.Lock()
	released := p.released
	p.mu.Unlock()
	p.waiting.Add(1)
	defer p.waiting.Add(-1)
	select {
	case <-released:
		c.JSON(http.StatusOK, gin.H{"message": req.Input.Message})
	case <-c.Request.Context().Done():
	}
}

// release releases all waiting requests. Later requests wait again.
func (p *parked) release(c *gin.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.released)
	p.released = make(chan struct{})
	c.Status(http.StatusOK)
}

// replayConnections is the default number of database connections of a Parley ingress.
const replayConnections = 16

// Answers is an SQL query that returns the number of answers that Replay has stored.
const Answers = `SELECT count(*) FROM floor_answers`

const (
	createAnswers = `CREATE TABLE IF NOT EXISTS floor_answers (key text COLLATE "C" PRIMARY KEY, answer text NOT NULL)`
	insertAnswer  = `INSERT INTO floor_answers VALUES ($1, $2) ON CONFLICT DO NOTHING`
	readAnswer    = `SELECT answer FROM floor_answers WHERE key = $1`
)

// runReplay serves repeated requests until ctx ends. It returns the answer stored under the
// request's key. The first request with a key stores an answer of the same size as Parley's.
func runReplay(ctx context.Context, c Config) (err error) {
	db, query, err := openTable(ctx, c.DatabaseURL, replayConnections, createAnswers, readAnswer)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, query.Close(), db.Close()) }()
	return serve(ctx, c.Address, routes(bound((&replay{db, query}).answer)))
}

// replay returns stored answers.
type replay struct {
	db    *sql.DB
	query *sql.Stmt
}

// answer returns the answer stored under the request's key. If there is none, it stores one first.
func (r *replay) answer(c *gin.Context, req *request) {
	var answer []byte
	unbound := context.WithoutCancel(c.Request.Context()) // lib/pq starts a goroutine for each query whose context can be canceled
	err := r.query.QueryRowContext(unbound, req.IdempotencyKey).Scan(&answer)
	if errors.Is(err, sql.ErrNoRows) {
		answer = []byte(`{"status":"completed","message":"` + strings.Repeat("x", 700) + `"}`)
		_, err = r.db.ExecContext(unbound, insertAnswer, req.IdempotencyKey, string(answer))
	}
	if err != nil {
		refuse(c, http.StatusServiceUnavailable, err)
		return
	}

	c.Data(http.StatusOK, "application/json", answer)
}
