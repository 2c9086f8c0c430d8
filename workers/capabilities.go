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

// Capability is a function of this process that depends on its machine or settings.
type Capability struct {
	Name  string
	State string // the implementation, or the reason why there is none
	Ok    bool
}

// mainPackages are the packages that authors of programs for agents ask for first; "python" is the
// interpreter.
var mainPackages = []string{"python", "numpy", "pandas", "matplotlib"}

// Capabilities returns what this process can do on its machine, as far as that depends on the
// machine. It is empty without the roles tool, ingest and voice.
func (w *Workers) Capabilities() []Capability {
	var list []Capability
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

// Survey returns the same as Capabilities and more, without a running service. It opens what the
// settings require and closes it again. If the settings are invalid, it reports only that.
func Survey(cfg Config) []Capability {
	if err := errors.Join(cfg.Runs.Check(), cfg.Workers.Check()); err != nil {
		return []Capability{{Name: "settings", State: strings.ReplaceAll(err.Error(), "\n", "; ")}}
	}
	list := []Capability{modelCapability(cfg), cgroupCapability(cgroup.Open)}

	once := cfg.Sandbox
	once.SandboxWarm = 0
	opened := openIsolation(once, true, func(error) {})
	list = append(list, sandboxCapability(opened.code, opened.noCode))
	list = append(list, packageCapabilities(opened.code.packages())...)

	readers := findReaders()
	list = append(list, documentsCapability(opened.none, readers))
	list = append(list, readers.capabilities()...)
	list = append(list, surveyEmbeddings(cfg), surveyVoice(cfg))

	if opened.backend == nil {
		return list
	}

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

func sandboxCapability(code *codeRunner, noCode error) Capability {
	if noCode != nil {
		return noSandbox(noCode)
	}
	return Capability{Name: "sandbox", State: code.backend.Name() + packageList(code.packages()), Ok: true}
}

func noSandbox(why error) Capability {
	c := Capability{Name: "sandbox", State: "none: " + oneLine(why)}
	if errors.Is(why, errSandboxOff) {
		c.State = config.SandboxOff
	}
	return c
}

// packageList lists the interpreter and the main packages, for example "   (Python 3.11.2, numpy
// 1.24.2)".
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

// packageCapabilities returns one entry for each main package. A missing package has no state.
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

// oneLine formats an error for a table.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
