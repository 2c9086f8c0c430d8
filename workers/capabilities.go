package workers

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"parley/shared/config"
	"parley/workers/internal/llm/providers"
	"parley/workers/internal/sandbox/cgroup"
	"parley/workers/internal/sandbox/python"
)

// Capability describes a function of this process that depends on the machine or the settings, such
// as reading documents.
type Capability struct {
	Name  string
	State string // the implementation in use, or the reason why the function is unavailable
	Ok    bool
}

// mainPackages lists the Python packages that agents' programs use most. The entry "python" stands
// for the interpreter itself.
var mainPackages = []string{"python", "numpy", "pandas", "matplotlib"}

// Capabilities returns the capabilities of this process that depend on its machine. The list is
// empty if the process has none of the roles tool, ingest and voice.
func (w *Workers) Capabilities() []Capability {
	var list []Capability
	// Code runs only in the role tool.
	if w.has(RoleTool) {
		list = append(list, sandboxCapability(w.isolation.code, w.isolation.noCode))
	}
	if w.has(RoleIngest) {
		list = append(list, documentsCapability(w.isolation.none, findReaders()), embeddingsCapability(w.embedder.Model()))
	}
	if w.has(RoleVoice) {
		list = append(list, voiceCapability(w.speech.backends))
	}
	return list
}

// Survey returns the capabilities that a process with these settings would have, in more detail
// than Capabilities. It needs no running service: it opens the resources that the settings require,
// and closes them again. If the settings are invalid, the result is a single entry with the error.
func Survey(cfg Config) []Capability {
	if err := cfg.Workers.Check(); err != nil {
		return []Capability{{Name: "settings", State: strings.ReplaceAll(err.Error(), "\n", "; ")}}
	}
	list := []Capability{modelCapability(cfg), cgroupCapability(cgroup.Open)}

	// A survey must not start sandboxes that it would have to end again.
	once := cfg.Sandbox
	once.SandboxWarm = 0
	opened := openIsolation(once, true, func(error) {})
	list = append(list, sandboxCapability(opened.code, opened.noCode))
	list = append(list, packageCapabilities(opened.code.packages())...)

	// The programs are reported even if the sandbox does not work, to show what else is missing.
	readers := findReaders()
	list = append(list, documentsCapability(opened.none, readers))
	list = append(list, readers.capabilities()...)
	list = append(list, surveyEmbeddings(cfg), surveyVoice(cfg))

	if opened.backend == nil {
		return list
	}

	// Notes are weaknesses of the machine that do not prevent sandboxes.
	for _, note := range opened.backend.Notes() {
		list = append(list, Capability{Name: "note", State: note, Ok: true})
	}
	if err := opened.close(); err != nil {
		list = append(list, Capability{Name: "note", State: "Closing the sandbox: " + err.Error()})
	}
	return list
}

// packages returns the packages that programs can import. It is empty without a sandbox.
func (r *codeRunner) packages() []python.Package {
	if r == nil {
		return nil
	}
	return r.interpreter.Packages()
}

// sandboxCapability describes the sandbox and its interpreter. noCode is the reason why code cannot
// run, or nil.
func sandboxCapability(code *codeRunner, noCode error) Capability {
	if noCode != nil {
		return noSandbox(noCode)
	}
	return Capability{Name: "sandbox", State: code.backend.Name() + packageList(code.packages()), Ok: true}
}

// noSandbox describes a missing sandbox. A sandbox that is disabled by the settings is not a
// failure, so its State is only the setting.
func noSandbox(why error) Capability {
	c := Capability{Name: "sandbox", State: "none: " + oneLine(why)}
	if errors.Is(why, errSandboxOff) {
		c.State = config.SandboxOff
	}
	return c
}

// packageList formats the versions of the interpreter and the main packages, for example "
// (Python 3.11.2, numpy 1.24.2)".
func packageList(packages []python.Package) string {
	var names []string
	for _, name := range mainPackages {
		if i := slices.IndexFunc(packages, func(p python.Package) bool { return p.Name == name }); i >= 0 {
			names = append(names, strings.Replace(name, "python", "Python", 1)+" "+packages[i].Version)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "   (" + strings.Join(names, ", ") + ")"
}

// packageCapabilities returns one entry for each main package. The entry for a missing package has
// an empty State, and Ok is false.
func packageCapabilities(packages []python.Package) (list []Capability) {
	for _, name := range mainPackages {
		c := Capability{Name: name}
		if i := slices.IndexFunc(packages, func(p python.Package) bool { return p.Name == name }); i >= 0 {
			c.State, c.Ok = packages[i].Version, true
		}
		list = append(list, c)
	}
	return list
}

// cgroupCapability describes the control groups, which limit the memory and processes of sandboxes.
// It opens the root group with open and closes it again.
func cgroupCapability(open func() (*cgroup.Root, error)) Capability {
	root, err := open()
	if err != nil {
		return Capability{Name: "cgroups", State: oneLine(err)}
	}
	c := Capability{Name: "cgroups", State: fmt.Sprintf("version %d", root.Version()), Ok: true}
	if err := root.Close(); err != nil {
		c.State += "; closing: " + oneLine(err)
	}
	return c
}

// modelCapability describes the default model. It checks the keys and addresses in the settings,
// but sends no request to a provider.
func modelCapability(cfg Config) Capability {
	models, err := providers.New(providers.Config{
		OpenAIAPIKey: cfg.OpenAIAPIKey, OpenAIBaseURL: cfg.OpenAIBaseURL,
		AnthropicAPIKey: cfg.AnthropicAPIKey, AnthropicBaseURL: cfg.AnthropicBaseURL, DefaultModel: cfg.DefaultModel,
	})
	if err != nil {
		return Capability{Name: "model", State: oneLine(err)}
	}
	return Capability{Name: "model", State: models.Default(), Ok: true}
}

// oneLine returns an error's text as a single line, for a table.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
