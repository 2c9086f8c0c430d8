package limitdb

import (
	"context"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"parley/shared/domain"
	"parley/shared/store/pg"
)

// DemoVerdict is the result of counting a demo request: whether the request is within its client's
// limit, how many more requests are allowed, and the time until the next request is allowed.
type DemoVerdict struct {
	Allowed   bool
	Remaining int
	Reset     time.Duration
}

// countDemoQuery counts a request. One statement locks the client's row, removes the requests that
// are older than the window, and adds this request unless the limit is reached. The clock is read
// after the lock is taken, and never runs backwards for a client. Therefore no period of the
// window's length contains more allowed requests than the limit.
const countDemoQuery = `
INSERT INTO demo_clients AS d (address, hits, allowed) VALUES ($1, ARRAY[clock_timestamp()], true)
ON CONFLICT (address) DO UPDATE SET (hits, allowed) = (
  SELECT CASE WHEN cardinality(live.hits) < $2 THEN live.hits || live.at ELSE live.hits END, cardinality(live.hits) < $2
  FROM (
    SELECT t.at, ARRAY(SELECT h FROM unnest(d.hits) AS h WHERE h > t.at - CAST($3 AS interval) ORDER BY h) AS hits
    FROM (SELECT greatest(clock_timestamp(), d.hits[array_upper(d.hits, 1)]) AS at) t
  ) live)
RETURNING allowed, cardinality(hits) AS used,
  extract(epoch FROM hits[greatest(1, cardinality(hits) - $2 + 1)] + CAST($3 AS interval) - clock_timestamp()) AS reset`

// CountDemo counts one request of the demo client at address. In any period of the length window,
// it allows at most limit requests. Requests beyond the limit are rejected and not counted.
func (s *Store) CountDemo(ctx context.Context, address string, limit int, window time.Duration) (DemoVerdict, error) {
	var row struct {
		Allowed bool    `db:"allowed"`
		Used    int     `db:"used"`
		Reset   float64 `db:"reset"`
	}

	err := s.db.Tx(ctx, func(tx *sqlx.Tx) error {
		return tx.GetContext(ctx, &row, countDemoQuery, address, limit, pg.Interval(window))
	})
	if err != nil {
		return DemoVerdict{}, fmt.Errorf("counting demo request: %w", err)
	}

	return DemoVerdict{
		Allowed:   row.Allowed,
		Remaining: max(0, limit-row.Used),
		Reset:     max(0, time.Duration(row.Reset*float64(time.Second))),
	}, nil
}

// DemoSpent returns the number of tokens used by the demo's runs that were accepted within the last
// day.
func (s *Store) DemoSpent(ctx context.Context) (int64, error) {
	var tokens int64
	err := s.db.Within(ctx, []string{domain.DemoOrganization}, func(tx *sqlx.Tx) error {
		return tx.GetContext(ctx, &tokens, `SELECT coalesce(sum(input_tokens + output_tokens), 0) FROM runs
			WHERE org_id = $1 AND created_at > now() - interval '1 day'`, domain.DemoOrganization)
	})
	if err != nil {
		return 0, fmt.Errorf("summing the tokens of the demo: %w", err)
	}
	return tokens, nil
}

// TokenGrant is the result of LeaseTokens: how many tokens were granted, and how many are
// left in the bucket.
type TokenGrant struct {
	Granted int     `db:"granted"`
	Left    float64 `db:"tokens"`
}

// leaseTokensQuery adds the tokens for the time since the bucket's last use, and takes whole tokens
// from the bucket. $2 is the capacity, $3 is the number of tokens per second, and $4 is the number
// of requested tokens.
const leaseTokensQuery = `
INSERT INTO rate_buckets AS b (name, tokens, granted, filled_at)
VALUES ($1, CAST($2 AS float8) - least($2, $4), least($2, $4), clock_timestamp())
ON CONFLICT (name) DO UPDATE SET (tokens, granted, filled_at) = (
  SELECT f.have - least(floor(f.have), $4), CAST(least(floor(f.have), $4) AS int), f.at
  FROM (
    SELECT t.at, least($2, b.tokens + CAST($3 AS float8) * extract(epoch FROM t.at - b.filled_at)) AS have
    FROM (SELECT greatest(clock_timestamp(), b.filled_at) AS at) t
  ) f)
RETURNING granted, tokens`

// LeaseTokens takes at most want tokens from the named bucket, possibly none. The bucket holds at
// most capacity tokens, and gains perSecond tokens per second. A new bucket is full. The caller
// keeps the granted tokens in memory, so that most requests need no statement.
func (s *Store) LeaseTokens(ctx context.Context, bucket string, capacity int, perSecond float64, want int) (TokenGrant, error) {
	var grant TokenGrant
	err := s.db.Tx(ctx, func(tx *sqlx.Tx) error {
		return tx.GetContext(ctx, &grant, leaseTokensQuery, bucket, capacity, perSecond, want)
	})
	if err != nil {
		return TokenGrant{}, fmt.Errorf("leasing tokens: %w", err)
	}
	return grant, nil
}

// PruneLimits deletes demo clients and buckets that have not been used for the duration idle, up to
// the maximum number of each. It returns how many rows it deleted. The argument idle must be longer
// than the window of every limit, because a deleted row counts as unused.
func (s *Store) PruneLimits(ctx context.Context, idle time.Duration, maximum int) (int, error) {
	var gone int64
	err := s.db.Tx(ctx, func(tx *sqlx.Tx) error {
		for _, query := range []string{
			`DELETE FROM demo_clients WHERE address IN (SELECT address FROM demo_clients
			   WHERE hits[array_upper(hits, 1)] < clock_timestamp() - CAST($1 AS interval) LIMIT $2 FOR UPDATE SKIP LOCKED)`,
			`DELETE FROM rate_buckets WHERE name IN (SELECT name FROM rate_buckets
			   WHERE filled_at < clock_timestamp() - CAST($1 AS interval) LIMIT $2 FOR UPDATE SKIP LOCKED)`,
		} {
			done, err := tx.ExecContext(ctx, query, pg.Interval(idle), maximum)
			if err != nil {
				return fmt.Errorf("deleting idle limits: %w", err)
			}
			n, err := done.RowsAffected()
			if err != nil {
				return fmt.Errorf("counting deleted limits: %w", err)
			}
			gone += n
		}

		return nil
	})
	return int(gone), err
}
