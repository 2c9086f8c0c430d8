package cli

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"parley/deploy/standalone/internal/console"
)

// shells contains the completion scripts, which call `parley complete`.
//
//go:embed shells
var shells embed.FS

// Completion is the command that prints a shell's completion script.
type Completion struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help returns the description for the manual page of the command.
func (*Completion) Help() string {
	return `Prints a script for shell completion of commands, options and their values, and of the IDs of agents, runs and keys if the service responds quickly. The script calls the program itself, so it stays valid after an upgrade.`
}

// Examples returns the examples on the manual page of the command.
func (*Completion) Examples() string {
	return `eval "$(parley completion bash)"      # in ~/.bashrc
eval "$(parley completion zsh)"       # in ~/.zshrc, after compinit
parley completion fish | source       # in config.fish`
}

// Run prints the completion script of the shell.
func (c *Completion) Run(con *console.Console) error {
	script, err := shells.ReadFile("shells/parley." + c.Shell)
	if err != nil {
		return fmt.Errorf("reading the script: %w", err)
	}
	return con.Printf("%s", script)
}

// Complete prints the completions of the last word, one per line: the word, a tab, its description.
// The completion scripts call this command, which must be fast, because the user waits.
type Complete struct {
	Words []string `arg:"" optional:"" passthrough:"" help:"The words after the program's name; the last one may be incomplete."`
}

// Run prints the possible completions. It returns no error, because the shell would hide it.
func (c *Complete) Run(ctx context.Context, con *console.Console, k *kong.Kong) error {
	words := c.Words
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	if len(words) == 0 {
		words = []string{""}
	}

	for _, found := range candidates(ctx, k.Model.Node, words) {
		if err := con.Printf("%s\t%s\n", found.word, found.means); err != nil {
			return err
		}
	}
	return nil
}

// candidate is a possible completion. The field means contains its description.
type candidate struct{ word, means string }

// line is the state after parsing the complete words of a command line. The parsing follows kong's
// rules only approximately, because an incomplete line need not be valid.
type line struct {
	node *kong.Node
	flag *kong.Flag // the next word is its value
	// values contains the options that were given, and args is the number of arguments.
	values  map[string]string
	args    int
	literal bool // after "--"
}

// candidates returns the possible completions of the last word, which may be empty. The argument
// app is the root of the commands.
func candidates(ctx context.Context, app *kong.Node, words []string) (found []candidate) {
	at := &line{node: app, values: map[string]string{}}
	for i, word := range words[:len(words)-1] {
		if word == "=" && i > 0 && at.flag != nil {
			continue // bash splits --flag=value into three words
		}
		at.take(word)
	}

	word, before := words[len(words)-1], ""
	if word == "=" && at.flag != nil {
		word = ""
	}
	if name, value, has := strings.Cut(word, "="); has && at.flag == nil && !at.literal && strings.HasPrefix(word, "--") {
		if at.flag = at.byName(name); at.flag == nil {
			return nil
		}
		word, before = value, name+"="
	}

	for _, c := range at.next(ctx, word) {
		if strings.HasPrefix(c.word, word) {
			found = append(found, candidate{before + c.word, c.means})
		}
	}
	return found
}

// take processes a complete word of the command line: a value, an option, a command or an argument.
func (l *line) take(word string) {
	switch {
	case l.flag != nil:
		l.values[l.flag.Name], l.flag = word, nil
	case l.literal:
		l.args++
	case word == "--":
		l.literal = true
	case strings.HasPrefix(word, "-") && word != "-":
		name, value, has := strings.Cut(word, "=")
		flag := l.byName(name)
		switch {
		case flag == nil:
		case has:
			l.values[flag.Name] = value
		case !flag.IsBool():
			l.flag = flag
		}
	default:
		if next := child(l.node, word); next != nil && l.args == 0 {
			l.node = next
			return
		}
		l.args++
	}
}

// byName returns the option that a word such as "--name" or "-n" selects, or nil.
func (l *line) byName(word string) *kong.Flag {
	for _, flag := range visible(l.node) {
		if word == "--"+flag.Name || flag.Short != 0 && word == "-"+string(flag.Short) {
			return flag
		}
		for _, alias := range flag.Aliases {
			if word == "--"+alias {
				return flag
			}
		}
	}
	return nil
}

// next returns the possible completions of word, which is at the end of the command line. Not all
// of them begin with word.
func (l *line) next(ctx context.Context, word string) (list []candidate) {
	switch {
	case l.flag != nil:
		return l.possible(ctx, l.flag.Value, word)
	case strings.HasPrefix(word, "-") && !l.literal:
		return l.options()
	}

	for _, c := range l.node.Children {
		if !c.Hidden {
			list = append(list, candidate{c.Name, c.Help})
		}
	}

	if l.args < len(l.node.Positional) {
		list = append(list, l.possible(ctx, l.node.Positional[l.args], word)...)
	}
	if path(l.node) == "help" {
		for _, c := range root(l.node).Children {
			if !c.Hidden {
				list = append(list, candidate{c.Name, c.Help})
			}
		}
	}
	return list
}

// root returns the node of the whole program.
func root(node *kong.Node) *kong.Node {
	for node.Parent != nil {
		node = node.Parent
	}
	return node
}

// options returns the options of the selected command that were not given yet. Options with a value
// end with "=".
func (l *line) options() (list []candidate) {
	for _, flag := range visible(l.node) {
		if _, given := l.values[flag.Name]; given && !flag.IsCumulative() {
			continue
		}
		name := "--" + flag.Name
		if !flag.IsBool() {
			name += "="
		}
		list = append(list, candidate{name, meaning(flag)})
		if flag.Tag.Negatable != "" {
			list = append(list, candidate{"--no-" + flag.Name, meaning(flag)})
		}
	}
	return list
}

// possible returns the possible values of an option or argument: the values of its enum, or IDs
// that it requests from the service that the command line selects. word is the incomplete value.
func (l *line) possible(ctx context.Context, value *kong.Value, word string) (list []candidate) {
	if value.Enum != "" {
		before := ""
		if value.IsSlice() { // in a list, only the value after the last comma is completed
			before = word[:strings.LastIndex(word, ",")+1]
		}
		for _, one := range value.EnumSlice() {
			if one != "" {
				list = append(list, candidate{before + one, ""})
			}
		}
		return list
	}

	path := path(l.node) + " " + value.Name
	switch path {
	case "chat words", "trigger agent", "runs tail agent":
		list = l.ids(ctx, "/api/agents", "name")
		if path == "chat words" {
			list = append(list, l.ids(ctx, "/api/agents/templates", "name")...)
		}
	case "runs show id", "runs cancel id":
		list = l.ids(ctx, "/api/runs", "status")
	case "keys revoke id":
		list = l.ids(ctx, "/api/keys", "name")
	}
	return list
}

// idsTimeout is the timeout of a request for IDs. It is short, because the user has pressed Tab and
// waits.
const idsTimeout = time.Second

// ids requests one page of IDs from the service, the newest first. The argument means names the
// field that describes an entry. ids returns no candidates if the service is unreachable or rejects
// the request.
func (l *line) ids(ctx context.Context, resource, means string) (list []candidate) {
	ctx, cancel := context.WithTimeout(ctx, idsTimeout)
	defer cancel()

	known, is := serviceFor(l.node)
	if !is {
		return nil
	}

	service := *known
	for name, into := range map[string]*string{
		"url": &service.URL, "key": &service.Key, "organization": &service.Organization, "data-dir": &service.DataDir,
	} {
		if value, given := l.values[name]; given {
			*into = value
		}
	}

	c, err := service.connect(retryLimits{})
	if err != nil {
		return nil
	}

	var page struct {
		Data []map[string]json.RawMessage `json:"data"`
	}

	query := url.Values{}
	if resource != "/api/agents/templates" {
		query.Set("limit", pageSize)
	}
	if _, err := c.Get(ctx, resource, query, &page); err != nil {
		return nil
	}

	for _, entry := range page.Data {
		var id, says string
		if json.Unmarshal(entry["id"], &id) == nil && json.Unmarshal(entry[means], &says) == nil {
			list = append(list, candidate{id, console.OneLine(says)})
		}
	}
	return list
}

// serviceFor returns the Service of a command. Values that the Service lacks are taken from the
// environment. serviceFor returns false if the command has no Service. The caller must copy the
// Service before changing it.
func serviceFor(node *kong.Node) (*Service, bool) {
	if node.Target.Kind() != reflect.Struct {
		return nil, false
	}
	field := node.Target.FieldByName("Service")
	if !field.IsValid() || !field.CanAddr() {
		return nil, false
	}
	service, is := reflect.TypeAssert[*Service](field.Addr())
	return service, is
}
