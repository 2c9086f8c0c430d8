package main

import (
	"context"
	"errors"

	knowledge "parley/scripts/bench/internal/documents"
	"parley/scripts/bench/internal/parley"
	"parley/scripts/bench/internal/report"
)

// documentFlags say how documents are measured.
type documentFlags struct {
	DocumentPages    int    `name:"document-pages" default:"300" help:"Pages of a document."`
	DocumentFile     string `name:"document-file" type:"existingfile" help:"A PDF to ingest instead of one of plain text."`
	DocumentRounds   int    `name:"document-rounds" default:"5" help:"Documents, each side's in turn."`
	DocumentPassages int    `name:"document-passages" default:"100000" help:"Passages to search among."`
	DocumentSearches int    `name:"document-searches" default:"400" help:"Searches of each side."`
}

func (d *documentFlags) check() error {
	if d.DocumentPages < 1 || d.DocumentRounds < 1 || d.DocumentPassages < 1 || d.DocumentSearches < 1 {
		return errors.New("--document-pages, --document-rounds, --document-passages and --document-searches must be above zero")
	}
	return nil
}

func (d *documentFlags) measure(ctx context.Context, o *options, r *report.Report) error {
	return o.alone(ctx, "documents", r, func(on stage) error { return d.measureOn(ctx, on, r) })
}

func (d *documentFlags) measureOn(ctx context.Context, on stage, r *report.Report) (err error) {
	dsn, err := on.servers.Database(ctx, "documents")
	if err != nil {
		return err
	}
	service, err := parley.Start(ctx, parley.Config{
		Binaries: on.binaries, DatabaseURL: dsn, NATSURL: on.servers.NATSURL(), LogsDir: on.dir, Roles: "agent,tool,ingest,sweep",
	})
	if err != nil {
		return errors.Join(err, on.servers.Err())
	}
	defer func() { err = errors.Join(err, service.Stop()) }()
	measured, err := knowledge.Run(ctx, knowledge.Config{
		Parley: service, DatabaseURL: dsn, Pages: d.DocumentPages, File: d.DocumentFile, Rounds: d.DocumentRounds,
		Passages: d.DocumentPassages, Searches: d.DocumentSearches, Progress: sayf,
	})
	if errors.Is(err, knowledge.ErrNoPoppler) {
		sayf("documents are not measured: %v", err)
		return nil
	}
	if err != nil {
		return errors.Join(err, on.servers.Err())
	}
	r.AddDocuments(measured)
	return nil
}

// documents measures documents alone.
type documents struct {
	options
	documentFlags
}

// Validate is called by kong.
func (d *documents) Validate() error { return errors.Join(d.options.check(), d.documentFlags.check()) }

// Run measures and writes the report.
func (d *documents) Run(ctx context.Context) error { return d.options.run(ctx, &d.documentFlags) }
