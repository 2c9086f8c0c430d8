package standalone

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"parley/shared/config"
	"parley/shared/store/pgserver"
	"parley/workers"
)

// Doctor is the command that checks whether this machine meets the requirements of `parley up` with
// the same settings. It does not call a running service.
type Doctor struct {
	config.Servers
	config.Logging
	config.Telemetry
	config.Runs
	config.Secrets
	config.Documents
	config.Ingress
	config.Workers
	DataDir string `name:"data-dir" env:"DATA_DIR" default:"./.data" help:"Where parley up keeps its data."`
	JSON    bool   `name:"json" help:"Print JSON instead of a table."`

	out  io.Writer // os.Stdout, except in tests
	host machine   // this machine, except in tests
}

// Help returns the description for the manual page of the command.
func (*Doctor) Help() string {
	return `Checks what parley up would use with the same settings: PostgreSQL, the model, search, the sandbox and its packages, document readers, speech. A line is ok, missing or off (disabled by the settings); a missing line names the command that fixes it. The command needs no running service and changes nothing.

It fails if something required to start the service is missing.`
}

// Examples returns the examples on the manual page of the command.
func (*Doctor) Examples() string {
	return `parley doctor
parley doctor --json | jq '.[] | select(.state == "missing")'`
}

// machine contains the functions with which Doctor examines the operating system. Tests replace
// them, so that their results do not depend on the machine.
type machine struct {
	program  func(name string) (path string, err error)
	postgres func(ctx context.Context) (pgserver.Binaries, error)
	survey   func(workers.Config) []workers.Capability
}

// finding is one row of Doctor's table. Its JSON form is documented, so field names must not
// change.
type finding struct {
	State string `json:"state"` // ok, missing or off
	Name  string `json:"name"`
	Says  string `json:"says"`
	// Required is true if the service does not start without it.
	Required bool `json:"required"`
}

// The states of a finding. Off means that the settings disable something or do not need it.
const (
	stateOK      = "ok"
	stateMissing = "missing"
	stateOff     = "off"
)

// Run prints the findings. It returns an error if something is missing that the service requires.
// The findings are printed in either case.
func (d *Doctor) Run(ctx context.Context) error {
	if d.host.program == nil {
		d.host = machine{program: exec.LookPath, postgres: pgserver.Find, survey: workers.Survey}
	}
	if d.out == nil {
		d.out = os.Stdout
	}
	findings := d.examine(ctx)
	if err := d.print(findings); err != nil {
		return err
	}
	return missingError(findings)
}

// missingError returns an error that names invalid settings and missing requirements, or nil.
func missingError(findings []finding) error {
	var errs []error
	var missing []string
	for _, f := range findings {
		switch {
		case !f.Required || f.State != stateMissing:
		case f.Name == "settings":
			errs = append(errs, fmt.Errorf("invalid settings: %s", f.Says))
		default:
			missing = append(missing, f.Name)
		}
	}

	if len(missing) > 0 {
		errs = append(errs, fmt.Errorf("required but missing: %s", strings.Join(missing, ", ")))
	}
	return errors.Join(errs...)
}

// print prints the findings as JSON or as a table.
func (d *Doctor) print(findings []finding) error {
	if d.JSON {
		encoder := json.NewEncoder(d.out)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(findings); err != nil {
			return fmt.Errorf("printing findings: %w", err)
		}
		return nil
	}

	for _, f := range findings {
		if _, err := fmt.Fprintf(d.out, "  %-8s %-12s %s\n", f.State, f.Name, f.Says); err != nil {
			return fmt.Errorf("printing findings: %w", err)
		}
	}
	return nil
}

// examine returns all findings, in the order of the table. It takes seconds, because the survey
// runs programs in a sandbox.
func (d *Doctor) examine(ctx context.Context) []finding {
	var all []finding
	if err := errors.Join(d.Runs.Check(), d.Ingress.Check(), d.Documents.Check(), d.Telemetry.Check(), d.checkSecrets()); err != nil {
		all = append(all, finding{stateMissing, "settings", strings.ReplaceAll(err.Error(), "\n", "; "), true})
	}

	all = append(all, d.database(ctx), d.stream())
	known := map[string]workers.Capability{}
	var notes []finding
	for _, c := range d.host.survey(workers.Config{Runs: d.Runs, Secrets: d.Secrets, Documents: d.Documents, Workers: d.Workers}) {
		if c.Name == "note" {
			notes = append(notes, finding{State: stateOff, Name: "note", Says: c.State})
		}
		known[c.Name] = c
	}

	if c, is := known["settings"]; is { // if the settings are invalid, nothing else is examined
		return append(all, finding{stateMissing, "settings", c.State, true})
	}

	all = append(all, d.model(known["model"]), d.search(), d.bubblewrap(), d.gvisor())
	all = append(all, cgroups(known["cgroups"]), sandboxed(known["sandbox"]))
	all = append(all, notes...)
	all = append(all, packages(known)...)
	all = append(all, documents(known["documents"]),
		reader("poppler", known, "poppler-utils", "PDF documents cannot be read"),
		reader("tesseract", known, "tesseract-ocr tesseract-ocr-eng", "scanned pages cannot be read"),
		d.embeddings(known["embeddings"]))

	return append(all, voice(known["voice"]),
		d.speechProgram("espeak", "espeak-ng", "espeak-ng", "SPEECH_MODEL", config.OfflineSpeak, d.Voice().SpeechModel),
		d.speechProgram("pocketsphinx", "pocketsphinx_batch", "pocketsphinx pocketsphinx-en-us", "TRANSCRIPTION_MODEL", config.OfflineListen,
			d.Voice().TranscriptionModel))
}

// checkSecrets checks SECRETS_KEY, unless it is not set.
func (d *Doctor) checkSecrets() error {
	if d.SecretsKey == "" {
		return nil // parley up creates a key
	}
	return d.Secrets.Check()
}

// database reports the PostgreSQL server: the one in DATABASE_URL, or the binaries that are
// installed.
func (d *Doctor) database(ctx context.Context) finding {
	f := finding{State: stateOK, Name: "postgresql", Required: true}
	if d.DatabaseURL != "" {
		f.Says = "the server in DATABASE_URL (not contacted)"
		return f
	}
	found, err := d.host.postgres(ctx)
	if err != nil {
		f.State, f.Says = stateMissing, err.Error()
		return f
	}
	f.Says = found.Version + ", " + found.Postgres
	return f
}

// stream reports the NATS server, which is never missing, because one is built in.
func (d *Doctor) stream() finding {
	if d.NATSURL != "" {
		return finding{State: stateOK, Name: "nats", Says: "the server in NATS_URL (not contacted)"}
	}
	return finding{State: stateOK, Name: "nats", Says: "built in"}
}

// model reports the default model and which settings of model providers are set. It omits the
// values, which may be keys. c is the result of the survey.
func (d *Doctor) model(c workers.Capability) finding {
	if !c.Ok {
		return finding{stateMissing, "model", c.State, true}
	}

	var set []string
	for _, s := range []struct{ name, value string }{
		{"DEFAULT_MODEL", d.DefaultModel},
		{"OPENAI_API_KEY", d.OpenAIAPIKey},
		{"OPENAI_BASE_URL", d.OpenAIBaseURL},
		{"ANTHROPIC_API_KEY", d.AnthropicAPIKey},
		{"ANTHROPIC_BASE_URL", d.AnthropicBaseURL},
	} {
		if s.value != "" {
			set = append(set, s.name)
		}
	}

	f := finding{State: stateOK, Name: "model", Says: c.State + "; set: " + strings.Join(set, ", "), Required: true}
	if len(set) == 0 {
		f.Says = c.State + "; set OPENAI_API_KEY or ANTHROPIC_API_KEY for a real model"
	}
	return f
}

// search reports the search engine that the settings select, and the reason.
func (d *Doctor) search() finding {
	by := map[string]string{
		"searxng": "SEARXNG_URL is set", "brave": "BRAVE_API_KEY is set", "tavily": "TAVILY_API_KEY is set",
		"wikipedia": "set SEARXNG_URL, BRAVE_API_KEY or TAVILY_API_KEY to search the whole web",
	}
	engine := d.SearchEngine()
	return finding{State: stateOK, Name: "search", Says: engine + "; " + by[engine]}
}

// bubblewrap reports the program of the sandbox bubblewrap. The program counts as missing only if
// the settings select this sandbox.
func (d *Doctor) bubblewrap() finding {
	if path, err := d.host.program("bwrap"); err == nil {
		return finding{State: stateOK, Name: "bubblewrap", Says: path}
	}
	if d.SandboxKind != config.SandboxBubblewrap {
		return finding{State: stateOff, Name: "bubblewrap", Says: "needed for SANDBOX=bubblewrap: " + install("bubblewrap")}
	}
	return finding{State: stateMissing, Name: "bubblewrap", Says: "needed to run code and to parse documents: " + install("bubblewrap")}
}

// gvisor reports the program of the sandbox gvisor. The program counts as missing only if the
// settings select this sandbox.
func (d *Doctor) gvisor() finding {
	name := os.Getenv("RUNSC")
	if name == "" {
		name = "runsc"
	}
	if path, err := d.host.program(name); err == nil {
		return finding{State: stateOK, Name: "runsc", Says: path}
	}
	if d.SandboxKind != config.SandboxGVisor {
		return finding{State: stateOff, Name: "runsc", Says: "needed for SANDBOX=gvisor: " + install("runsc")}
	}
	return finding{State: stateMissing, Name: "runsc", Says: "required by SANDBOX=gvisor: " + install("runsc") + ", or RUNSC=<its path>"}
}

// cgroups reports whether the kernel limits sandboxes. Without cgroups, sandboxes work
// nevertheless.
func cgroups(c workers.Capability) finding {
	if c.Ok {
		return finding{State: stateOK, Name: "cgroups", Says: c.State + ": the kernel limits a sandbox's memory, processes and CPU time"}
	}
	const without = "a sandbox's memory, processes and CPU time are monitored, not limited by the kernel: "
	return finding{State: stateOff, Name: "cgroups", Says: without + c.State}
}

// sandboxed reports whether agents' code can be run.
func sandboxed(c workers.Capability) finding {
	switch {
	case c.Ok:
		return finding{State: stateOK, Name: "sandbox", Says: c.State}
	case c.State == config.SandboxOff:
		return finding{State: stateOff, Name: "sandbox", Says: "codeExecution is disabled; set SANDBOX=bubblewrap to enable it"}
	default:
		return finding{State: stateMissing, Name: "sandbox", Says: "codeExecution is unavailable: " + strings.TrimPrefix(c.State, "none: ")}
	}
}

// documents reports which formats of documents can be read. Without a reader, documents wait for a
// worker that has one.
func documents(c workers.Capability) finding {
	why, none := strings.CutPrefix(c.State, "none: ")
	switch {
	case c.Ok:
		return finding{State: stateOK, Name: "documents", Says: c.State}
	case none || c.State == "":
		says := "documents stay queued until they can be read: " + cmp.Or(why, "no reader is available")
		return finding{State: stateMissing, Name: "documents", Says: says}
	default:
		return finding{State: stateMissing, Name: "documents", Says: c.State}
	}
}

// reader reports whether a program that reads documents is installed. The argument debian names the
// program's package. The argument without describes the consequence of a missing program.
func reader(name string, known map[string]workers.Capability, debian, without string) finding {
	if c := known[name]; c.Ok {
		return finding{State: stateOK, Name: name, Says: c.State}
	}
	return finding{State: stateMissing, Name: name, Says: without + ": " + install(debian)}
}

// embeddings reports the embeddings model. A model that is configured wrongly keeps the service
// from starting.
func (d *Doctor) embeddings(c workers.Capability) finding {
	switch {
	case d.EmbeddingsModel == "":
		const says = "documents are searched by words; set EMBEDDINGS_MODEL=openai/… to search by meaning"
		return finding{State: stateOff, Name: "embeddings", Says: says}
	case !c.Ok:
		return finding{stateMissing, "embeddings", c.State, true}
	default:
		return finding{State: stateOK, Name: "embeddings", Says: c.State}
	}
}

// packages reports which Python packages agents' code can import. The survey has imported them in a
// sandbox.
func packages(known map[string]workers.Capability) (list []finding) {
	for _, p := range []struct{ name, debian string }{
		{"python", "python3"}, {"numpy", "python3-numpy"}, {"pandas", "python3-pandas"}, {"matplotlib", "python3-matplotlib"},
	} {
		f := finding{State: stateOK, Name: p.name, Says: known[p.name].State}
		switch {
		case known[p.name].Ok:
		case known["sandbox"].Ok:
			f.State, f.Says = stateMissing, "agents' programs cannot use it: "+install(p.debian)
		default:
			f.State, f.Says = stateOff, "not checked without a sandbox"
		}
		list = append(list, f)
	}
	return list
}

// voice reports how voice sessions produce and recognize speech. Missing speech programs are
// separate findings.
func voice(c workers.Capability) finding {
	switch {
	case isOfflineVoice(c):
		return finding{State: stateOK, Name: "voice", Says: c.State + "; set OPENAI_API_KEY for better speech"}
	case c.Ok:
		return finding{State: stateOK, Name: "voice", Says: c.State}
	case c.State == config.SpeechOff:
		return finding{State: stateOff, Name: "voice", Says: "TRANSCRIPTION_MODEL and SPEECH_MODEL are off"}
	default:
		return finding{State: stateMissing, Name: "voice", Says: cmp.Or(c.State, "no speech program is available")}
	}
}

// speechProgram reports a speech program. The argument setting is the name of a setting, and the
// argument wanted is its value. The program is needed, and can count as missing, only if this value
// equals the argument is. The argument debian lists the program's packages.
func (d *Doctor) speechProgram(name, program, debian, setting, is, wanted string) finding {
	if path, err := d.host.program(program); err == nil {
		return finding{State: stateOK, Name: name, Says: path}
	}
	if wanted != is {
		return finding{State: stateOff, Name: name, Says: setting + "=" + is + " needs it: " + install(debian)}
	}
	return finding{State: stateMissing, Name: name, Says: setting + "=" + is + " needs it: " + install(debian)}
}

// install returns the command that installs packages on Debian and Ubuntu. Many other distributions
// use the same package names.
func install(debian string) string { return "apt-get install -y --no-install-recommends " + debian }
