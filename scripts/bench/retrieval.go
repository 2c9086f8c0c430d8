package main

import (
	"context"
	"errors"

	"parley/scripts/bench/internal/parley"
	"parley/scripts/bench/internal/report"
	search "parley/scripts/bench/internal/retrieval"
)

// retrievalFlags say how it is measured what searches find.
type retrievalFlags struct {
	RetrievalSections  int `name:"retrieval-sections" default:"2400" help:"Sections of manual pages that can be asked about, at least."`
	RetrievalQuestions int `name:"retrieval-questions" default:"800" help:"Questions, each about another section."`
}

func (f *retrievalFlags) check() error {
	if f.RetrievalSections < 1 || f.RetrievalQuestions < 1 || f.RetrievalQuestions > f.RetrievalSections {
		return errors.New("--retrieval-questions must be above zero and at most --retrieval-sections")
	}
	return nil
}

func (f *retrievalFlags) measure(ctx context.Context, o *options, r *report.Report) error {
	return o.alone(ctx, "retrieval", r, func(on stage) error { return f.measureOn(ctx, on, r) })
}

func (f *retrievalFlags) measureOn(ctx context.Context, on stage, r *report.Report) error {
	found, err := search.Run(ctx, search.Config{
		Sections: f.RetrievalSections, Questions: f.RetrievalQuestions, Progress: sayf,
		Start: func(ctx context.Context, name string, settings map[string]string) (*parley.Parley, string, error) {
			dsn, err := on.servers.Database(ctx, "retrieval_"+name)
			if err != nil {
				return nil, "", err
			}
			service, err := parley.Start(ctx, parley.Config{
				Binaries: on.binaries, DatabaseURL: dsn, NATSURL: on.servers.NATSURL(), LogsDir: on.dir, Roles: "agent,tool,ingest,sweep",
				Settings: settings,
			})
			return service, dsn, err
		},
	})
	if errors.Is(err, search.ErrFewPages) {
		sayf("what searches find is not measured: %v", err)
		return nil
	}
	if err != nil {
		return errors.Join(err, on.servers.Err())
	}
	r.AddRetrieval(found)
	return nil
}

// retrieval measures what searches find, alone.
type retrieval struct {
	options
	retrievalFlags
}

// Validate is called by kong.
func (r *retrieval) Validate() error {
	return errors.Join(r.options.check(), r.retrievalFlags.check())
}

// Run measures and writes the report.
func (r *retrieval) Run(ctx context.Context) error { return r.options.run(ctx, &r.retrievalFlags) }
