package workers

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"parley/shared/config"
	"parley/workers/internal/llm/providers"
	"parley/workers/internal/sandbox/cgroup"
	"parley/workers/internal/sandbox/python"
)

// Capability describes a function of this process that depends on the machine or on the settings,
// for example the ability to read documents. It is shown to operators.
type Capability struct {
	Name  string
	State string // the implementation in use, or why the function is unavailable
	// Ok is false if the function, or an important part of it, is unavailable.
	Ok bool
}

// mainPackages contains the Python packages that agents' programs use most. The entry "python"
// stands for the interpreter itself.
var mainPackages = []string{"python", "numpy", "pandas", "matplotlib"}

// Capabilities returns the capabilities of this process that depend on its machine. If the process
// has none of the roles tool, ingest and voice, the list is empty.
func (w *Workers) Capabilities() []Capability {
	var list []Capability
	// Only the role tool runs code.
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

// Survey returns the capabilities that a process with these settings would have. It is more
// detailed than Capabilities and needs no running service. It opens the resources that the settings
// require, and closes them again, which takes seconds. If the settings are invalid, the result is a
// single entry with the error.
func Survey(cfg Config) []Capability {
	if err := cmp.Or(cfg.Workers.Check(), checkPrices(cfg.Workers)); err != nil {
		return []Capability{{Name: "settings", State: strings.ReplaceAll(err.Error(), "\n", "; ")}}
	}
	list := []Capability{modelCapability(cfg), cgroupCapability(cgroup.Open)}

	// Start no sandboxes in advance, because the survey would only have to close them again.
	opened := openIsolation(cfg.Sandbox, true, 0, func(error) {})
	list = append(list, sandboxCapability(opened.code, opened.noCode))
	list = append(list, packageCapabilities(opened.code.packages())...)

	// Survey the programs that read documents even if the sandbox does not work, so that the list
	// shows everything that is missing.
	readers := findReaders()
	list = append(list, documentsCapability(opened.none, readers))
	list = append(list, readers.capabilities()...)
	list = append(list, surveyEmbeddings(cfg), surveyVoice(cfg))

	if opened.backend == nil {
		return list
	}

	// A note describes a weakness of the machine that does not prevent sandboxes from working.
	for _, note := range opened.backend.Notes() {
		list = append(list, Capability{Name: "note", State: note, Ok: true})
	}
	if err := opened.close(); err != nil {
		list = append(list, Capability{Name: "note", State: "Closing the sandbox: " + err.Error()})
	}
	return list
}

// packages returns the Python packages that agents' programs can import. It returns none if this
// process cannot run code.
func (r *codeRunner) packages() []python.Package {
	if r == nil {
		return nil
	}
	return r.interpreter.Packages()
}

// sandboxCapability describes the sandbox and its Python interpreter. noCode is the reason why this
// process cannot run code, or nil if it can.
func sandboxCapability(code *codeRunner, noCode error) Capability {
	if noCode != nil {
		return noSandbox(noCode)
	}
	return Capability{Name: "sandbox", State: code.backend.Name() + packageList(code.packages()), Ok: true}
}

// noSandbox describes the lack of a sandbox. If the settings disable the sandbox, this is not a
// failure, and State contains only the setting.
func noSandbox(why error) Capability {
	c := Capability{Name: "sandbox", State: "none: " + oneLine(why)}
	if errors.Is(why, errSandboxOff) {
		c.State = config.SandboxOff
	}
	return c
}

// packageList formats the versions of the interpreter and the main packages, for example as "
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

// packageCapabilities returns one entry for each main package. If a package is missing, State is
// empty and Ok is false in its entry.
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

// cgroupCapability describes the control groups that limit the memory and processes of sandboxes.
// It opens the root group with open, and closes it again.
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
	models, err := providers.New(providerSettings(cfg.Runs, cfg.Workers))
	if err != nil {
		return Capability{Name: "model", State: oneLine(err)}
	}
	return Capability{Name: "model", State: models.Default(), Ok: true}
}

// oneLine returns the text of an error as a single line, for a table.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
