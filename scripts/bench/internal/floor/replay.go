package floor

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/lib/pq"

	"parley/scripts/bench/internal/load"
	"parley/scripts/bench/internal/process"
)

// ReplayPath is where answers are asked for again.
const ReplayPath = "/replay"

// replayConnections are as many as an ingress of Parley may have.
const replayConnections = 16

const (
	createAnswers = `CREATE TABLE floor_answers (key text COLLATE "C" PRIMARY KEY, answer text NOT NULL)`
	insertAnswers = `INSERT INTO floor_answers SELECT * FROM unnest($1::text[], $2::text[])`
	readAnswer    = `SELECT answer FROM floor_answers WHERE key = $1`
)

// StoreAnswers keeps answers by their keys, for RunReplay.
func StoreAnswers(ctx context.Context, databaseURL string, keys, answers []string) error {
	db, err := openReplay(databaseURL)
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, createAnswers)
	if err == nil {
		_, err = db.ExecContext(ctx, insertAnswers, pq.StringArray(keys), pq.StringArray(answers))
	}
	if err == nil {
		_, err = db.ExecContext(ctx, `ANALYZE floor_answers`)
	}
	if err = errors.Join(err, db.Close()); err != nil {
		return fmt.Errorf("keeping answers: %w", err)
	}
	return nil
}

func openReplay(databaseURL string) (*sql.DB, error) {
	connector, err := pq.NewConnector(databaseURL)
	if err != nil {
		return nil, fmt.Errorf("reading database address: %w", err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(replayConnections)
	db.SetMaxIdleConns(replayConnections)
	return db, nil
}

// RunReplay serves on address until ctx ends: it reads requests as the floor's ingress does, and answers each with what is kept
// under its key.
func RunReplay(ctx context.Context, address, databaseURL string) (err error) {
	db, err := openReplay(databaseURL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	query, err := db.PrepareContext(ctx, readAnswer)
	if err != nil {
		return fmt.Errorf("preparing read: %w", err)
	}
	defer func() { err = errors.Join(err, query.Close()) }()
	return serve(ctx, address, (&replayed{query}).routes())
}

// replayed are the answers.
type replayed struct{ query *sql.Stmt }

func (r *replayed) routes() http.Handler {
	gin.SetMode(gin.ReleaseMode)
	router := gin.New()
	router.POST(ReplayPath, r.answer)
	router.GET(ReadyPath, func(c *gin.Context) { c.Status(http.StatusOK) })
	return router
}

func (r *replayed) answer(c *gin.Context) {
	var req request
	if err := c.ShouldBindJSON(&req); err != nil {
		c.JSON(http.StatusBadRequest, gin.H{"error": err.Error()})
		return
	}
	var answer []byte
	unbound := context.WithoutCancel(c.Request.Context()) // lib/pq starts a goroutine for a context that can end
	if err := r.query.QueryRowContext(unbound, req.IdempotencyKey).Scan(&answer); err != nil {
		c.JSON(http.StatusServiceUnavailable, gin.H{"error": err.Error()})
		return
	}
	c.Data(http.StatusOK, "application/json", answer)
}

// Replay is a running process of answers.
type Replay struct {
	process.Group
	address string
}

// StartReplay starts it from a binary that calls RunReplay on the argument floor-replay, with ADDRESS and DATABASE_URL in its
// environment. StoreAnswers has been called on that database.
func StartReplay(ctx context.Context, command, databaseURL, logsDir string) (*Replay, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	port, err := process.FreePort(ctx)
	if err != nil {
		return nil, err
	}
	r := &Replay{address: fmt.Sprintf("127.0.0.1:%d", port)}
	started, err := r.Group.Start(ctx, process.Config{
		Name: "floor-replay", Path: command, Args: []string{"floor-replay"}, LogsDir: logsDir,
		Env: map[string]string{"ADDRESS": r.address, "DATABASE_URL": databaseURL},
	})
	if err == nil {
		err = started.AwaitOK(ctx, "http://"+r.address+ReadyPath)
	}
	if err != nil {
		return nil, errors.Join(err, r.Stop())
	}
	return r, nil
}

// Load is a request that is answered; nonce and number of its keys, how long and by how many are the caller's to say.
func (r *Replay) Load() load.Spec {
	return load.Spec{Address: r.address, Path: ReplayPath, Body: load.Body("ag_floor"), Expect: `"status":"completed"`}
}
