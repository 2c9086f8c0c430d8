package pgserver

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/lib/pq"
)

// duplicateDatabase is PostgreSQL's error code for an existing database.
const duplicateDatabase = "42P04"

// CreateDatabase creates an empty database that the superuser owns. It does nothing if the database
// exists.
func (s *Server) CreateDatabase(ctx context.Context, name string) error {
	err := s.execute(ctx, "CREATE DATABASE "+pq.QuoteIdentifier(name))
	var refused *pq.Error
	if errors.As(err, &refused) && string(refused.Code) == duplicateDatabase {
		return nil
	}
	if err != nil {
		return fmt.Errorf("creating database %s: %w", name, err)
	}
	return nil
}

// ping checks that a server which reports that it is ready accepts connections.
func (s *Server) ping(ctx context.Context) error {
	if err := s.execute(ctx, "SELECT 1"); err != nil {
		return fmt.Errorf("querying the started PostgreSQL: %w", err)
	}
	return nil
}

// setPassword sets the superuser's password to the password that is stored in the directory. If
// none is stored, it generates and stores one. It sets the password at every start, because an
// earlier process may have died after it stored the password and before it set the password.
func (s *Server) setPassword(ctx context.Context) error {
	path := filepath.Join(s.config.Dir, "password")
	content, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(content) == 0 {
		content = []byte(rand.Text())
		err = os.WriteFile(path, content, 0o600)
	}

	if err != nil {
		return fmt.Errorf("storing PostgreSQL's password: %w", err)
	}

	s.password = string(content)
	err = s.execute(ctx, "ALTER ROLE "+pq.QuoteIdentifier(User)+" PASSWORD "+pq.QuoteLiteral(s.password))
	if err != nil {
		return fmt.Errorf("setting PostgreSQL's password: %w", err)
	}

	return nil
}

// execute runs one statement on a new connection over the socket. It passes each setting
// explicitly: settings in a URL would be combined with PG… environment variables.
func (s *Server) execute(ctx context.Context, statement string) (err error) {
	connector, err := pq.NewConnectorConfig(pq.Config{
		Host: s.socket, Port: uint16(s.port()), User: User, Database: "postgres", SSLMode: pq.SSLModeDisable,
		ClientEncoding: "UTF8", Datestyle: "ISO, MDY", MinProtocolVersion: pq.ProtocolVersion30, MaxProtocolVersion: pq.ProtocolVersion30,
	})
	if err != nil {
		return fmt.Errorf("opening connection: %w", err)
	}
	db := sql.OpenDB(connector)
	defer func() { err = errors.Join(err, db.Close()) }()
	_, err = db.ExecContext(ctx, statement)
	return err
}
