package floor

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"
)

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
