package cli

import (
	"cmp"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// pageWidth is the width of manual pages in characters, and indent is the margin of their texts.
const (
	pageWidth = 80
	indent    = "    "
)

// Interfaces that commands implement to add optional sections to their manual pages, in addition to
// kong's Help.
type (
	exampleProvider interface{ Examples() string }
	usageProvider   interface{ Usage() string }
	statusProvider  interface{ Statuses() []int }
)

// variables lists environment variables for which there is no option, with their meanings.
var variables = [][2]string{
	{"HTTPS_PROXY, HTTP_PROXY, NO_PROXY", "The proxy for services on other machines; services on this machine are called directly."},
}

// PrintHelp prints the manual page of the selected command. It is kong's help printer.
func PrintHelp(_ kong.HelpOptions, ctx *kong.Context) error {
	node := ctx.Selected()
	if node == nil {
		node = ctx.Model.Node
	}
	if _, err := io.WriteString(ctx.Stdout, Page(node)); err != nil {
		return fmt.Errorf("printing help: %w", err)
	}
	return nil
}

// PrintUsage prints the usage of the selected command in two lines. It is kong's short help
// printer, which runs before an error is printed.
func PrintUsage(_ kong.HelpOptions, ctx *kong.Context) error {
	node := ctx.Selected()
	if node == nil {
		node = ctx.Model.Node
	}
	help := strings.TrimSpace("parley help " + path(node))
	if _, err := fmt.Fprintf(ctx.Stderr, "Usage: %s\n(for details: %s)\n", synopsis(node), help); err != nil {
		return fmt.Errorf("printing usage: %w", err)
	}
	return nil
}

// Page returns the manual page of a command or of the whole program.
func Page(node *kong.Node) string {
	p := &page{}
	name := strings.TrimSpace("parley " + path(node))
	p.section("NAME")
	p.wrap(indent, strings.ReplaceAll(name, " ", "-")+" - "+lower(node.Help))
	p.section("SYNOPSIS")
	for _, line := range synopses(node) {
		p.wrap(indent, line)
	}

	if detail := cmp.Or(node.Detail, node.Help); detail != "" {
		p.section("DESCRIPTION")
		for i, paragraph := range strings.Split(detail, "\n\n") {
			if i > 0 {
				p.line("")
			}
			p.wrap(indent, paragraph)
		}
	}

	p.commands(node)
	p.arguments(node)
	if len(node.Children) == 0 {
		p.options(node)
		p.environment(node)
	}

	p.exits(node)
	if shows, is := commandAs[exampleProvider](node); is {
		p.section("EXAMPLES")
		for line := range strings.Lines(shows.Examples()) {
			p.line(indent + strings.TrimRight(line, "\n"))
		}
	}
	return p.String()
}

// commandAs returns the command of a node as a value of type T. It returns false if the command
// does not have this type. T is usually one of the interfaces for optional sections.
func commandAs[T any](node *kong.Node) (known T, is bool) {
	if !node.Target.IsValid() || !node.Target.CanAddr() {
		return known, false
	}
	known, is = reflect.TypeAssert[T](node.Target.Addr())
	return known, is
}

// path returns the words that select a command, without the name of the program.
func path(node *kong.Node) string {
	var words []string
	for ; node != nil && node.Type == kong.CommandNode; node = node.Parent {
		words = append(words, node.Name)
	}
	slices.Reverse(words)
	return strings.Join(words, " ")
}

// synopsis returns the first line of the synopsis.
func synopsis(node *kong.Node) string { return synopses(node)[0] }

// synopses returns the lines of the synopsis: one for a command, and one for each subcommand of a
// group.
func synopses(node *kong.Node) []string {
	name := strings.TrimSpace("parley " + path(node))
	if spells, is := commandAs[usageProvider](node); is {
		return []string{name + " " + spells.Usage()}
	}
	if len(node.Children) > 0 {
		if node.Type == kong.ApplicationNode {
			return []string{name + " COMMAND [OPTION]... [ARGUMENT]..."}
		}
		var lines []string
		for _, child := range node.Children {
			if !child.Hidden {
				lines = append(lines, synopses(child)...)
			}
		}
		return lines
	}
	if len(visible(node)) > 1 {
		name += " [OPTION]..."
	}

	for _, argument := range node.Positional {
		word := strings.ToUpper(argument.Name)
		if argument.IsCumulative() {
			word += "..."
		}
		if !argument.Required {
			word = "[" + word + "]"
		}
		name += " " + word
	}
	return []string{name}
}

// visible returns the options that a command's page lists, including -h.
func visible(node *kong.Node) (flags []*kong.Flag) {
	for _, group := range node.AllFlags(true) {
		flags = append(flags, group...)
	}
	return flags
}

// lower returns a help text as part of a sentence: with a lower-case first letter and without a
// full stop.
func lower(sentence string) string {
	sentence = strings.TrimSuffix(sentence, ".")
	if sentence == "" {
		return ""
	}
	return strings.ToLower(sentence[:1]) + sentence[1:]
}

// page is a manual page that is being written. Texts are wrapped at pageWidth.
type page struct{ strings.Builder }

// line writes a line.
func (p *page) line(text string) { p.WriteString(text + "\n") }

// section writes the title of a section, after an empty line.
func (p *page) section(title string) {
	if p.Len() > 0 {
		p.line("")
	}
	p.line(title)
}

// wrap writes a text as wrapped lines with the given margin.
func (p *page) wrap(margin, text string) {
	for _, line := range wrapped(text, pageWidth-len(margin)) {
		p.line(margin + line)
	}
}

// item writes a term, and its meaning indented on the following lines.
func (p *page) item(term, means string) {
	p.wrap(indent, term)
	p.wrap(indent+indent, means)
}

// commands writes the section with the subcommands, if there are any.
func (p *page) commands(node *kong.Node) {
	if len(node.Children) == 0 {
		return
	}
	p.section("COMMANDS")
	for _, child := range node.Leaves(true) {
		p.item(names(child), child.Help)
	}
}

// names returns the words that select a command, followed by its aliases, such as "runs tail, runs
// list".
func names(node *kong.Node) string {
	all := []string{path(node)}
	for _, alias := range node.Aliases {
		all = append(all, strings.TrimSpace(path(node.Parent)+" "+alias))
	}
	return strings.Join(all, ", ")
}

// arguments writes the section with the arguments, if there are any.
func (p *page) arguments(node *kong.Node) {
	if len(node.Positional) == 0 {
		return
	}
	p.section("ARGUMENTS")
	for _, argument := range node.Positional {
		p.item(strings.ToUpper(argument.Name), argument.Help)
	}
}

// options writes the section with the options.
func (p *page) options(node *kong.Node) {
	p.section("OPTIONS")
	for _, flag := range visible(node) {
		p.item(spellFlag(flag), meaning(flag))
	}
}

// spellFlag returns an option as users type it.
func spellFlag(flag *kong.Flag) string {
	out := "--" + flag.Name
	if flag.Tag.Negatable != "" {
		out = "--[no-]" + flag.Name
	}

	for _, alias := range flag.Aliases {
		out += ", --" + alias
	}

	if flag.Short != 0 {
		out = "-" + string(flag.Short) + ", " + out
	}
	if flag.IsBool() {
		return out
	}
	return out + "=" + cmp.Or(flag.PlaceHolder, valueName(flag))
}

// valueName returns the placeholder for the value of an option, by its type.
func valueName(flag *kong.Flag) string {
	switch {
	case flag.Target.Type().String() == "time.Duration":
		return "TIME"
	case flag.IsSlice():
		return "LIST"
	case flag.Target.CanInt(), flag.Target.CanFloat():
		return "N"
	default:
		return "TEXT"
	}
}

// meaning returns the help text of an option, with its default and environment variable. It omits a
// default that the text already mentions.
func meaning(flag *kong.Flag) string {
	out := flag.Help
	if flag.Name == "help" {
		out = "Show this page."
	}
	if flag.HasDefault && flag.Default != "" && !flag.IsBool() && !strings.Contains(out, flag.Default) {
		out += " Default: " + flag.Default + "."
	}
	if len(flag.Envs) > 0 {
		out += " [" + strings.Join(flag.Envs, ", ") + "]"
	}
	return out
}

// environment writes the section with the environment variables of the command's options, if there
// are any. Commands that call a service also list the variables for proxies.
func (p *page) environment(node *kong.Node) {
	var names []string
	for _, flag := range visible(node) {
		names = append(names, flag.Envs...)
	}

	if len(names) == 0 {
		return
	}

	p.section("ENVIRONMENT")
	p.wrap(indent, "Each variable sets the option that lists it; the option takes precedence:")
	p.wrap(indent+indent, strings.Join(names, " "))
	if !slices.Contains(names, "PARLEY_BASE_URL") {
		return
	}

	for _, v := range variables {
		p.item(v[0], v[1])
	}
}

// exits writes the section with the exit statuses. If the command does not state its statuses, its
// options determine them.
func (p *page) exits(node *kong.Node) {
	known := []int{ExitDone, ExitFailure, ExitArguments, ExitInterrupted}
	if says, is := commandAs[statusProvider](node); is {
		known = says.Statuses()
	} else if slices.ContainsFunc(visible(node), func(f *kong.Flag) bool { return slices.Contains(f.Envs, "PARLEY_BASE_URL") }) {
		known = []int{ExitDone, ExitFailure, ExitRefused, ExitArguments, ExitInterrupted}
	} else if len(node.Children) > 0 {
		known = []int{ExitDone, ExitFailure, ExitRunFailed, ExitRefused, ExitNotEnded, ExitArguments, ExitInterrupted}
	}

	p.section("EXIT STATUS")
	for _, code := range known {
		lines := wrapped(statuses[code], pageWidth-len(indent)-5)
		p.line(fmt.Sprintf("%s%-5d%s", indent, code, lines[0]))
		for _, line := range lines[1:] {
			p.line(indent + "     " + line)
		}
	}
}

// wrapped breaks a text into lines of at most width characters. A longer word has its own line.
func wrapped(text string, width int) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case len([]rune(line))+1+len([]rune(word)) <= width:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	return append(lines, line)
}

// Overview returns the text that parley prints if it is called without arguments: the commands by
// group.
func Overview(app *kong.Application) string {
	p := &page{}
	p.line("parley - " + lower(app.Help))
	groups := map[string][]*kong.Node{}
	var order []string
	for _, child := range app.Children {
		if child.Hidden {
			continue
		}
		title := "Further"
		if child.Group != nil {
			title = child.Group.Title
		}
		if groups[title] == nil {
			order = append(order, title)
		}
		groups[title] = append(groups[title], child)
	}

	for _, title := range order {
		p.section(title)
		for _, child := range groups[title] {
			lines := wrapped(child.Help, pageWidth-18)
			p.line(fmt.Sprintf("  %-15s %s", child.Name, lines[0]))
			for _, line := range lines[1:] {
				p.line(strings.Repeat(" ", 18) + line)
			}
		}
	}

	p.line("")
	p.line("To begin, run parley up, and in another terminal: parley chat Hello")
	p.line("`parley help COMMAND` prints a command's page, and `parley help` the program's.")
	return p.String()
}

// Help is the command that prints a manual page.
type Help struct {
	Command []string `arg:"" optional:"" help:"The command; default: the program itself."`
}

// Examples returns the examples on the manual page of the command.
func (*Help) Examples() string {
	return `parley help trigger
parley help keys create`
}

// Run prints the manual page of the given command.
func (h *Help) Run(k *kong.Kong) error {
	node := k.Model.Node
	for _, word := range h.Command {
		next := child(node, word)
		if next == nil {
			return exit(ExitArguments, "unknown command %q", strings.Join(h.Command, " "))
		}
		node = next
	}
	if _, err := io.WriteString(k.Stdout, Page(node)); err != nil {
		return fmt.Errorf("printing help: %w", err)
	}
	return nil
}

// child returns the subcommand with this name, or nil.
func child(node *kong.Node, name string) *kong.Node {
	for _, c := range node.Children {
		if c.Type == kong.CommandNode && (c.Name == name || slices.Contains(c.Aliases, name)) {
			return c
		}
	}
	return nil
}
