package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// stray is a text that people read but that is not in a table of texts.
type stray struct {
	file string // path below ingress/web
	text string // the text, in which ⟨…⟩ stands for an inserted value
}

// table matches the names of modules with tables of texts. The expression code matches the names of
// all modules.
var (
	table = regexp.MustCompile(`(^|[/.])texts\.tsx?$|(^|/)texts/`)
	code  = regexp.MustCompile(`\.tsx?$`)
	// other matches the names of modules that contain no texts for users: tests, modules for tests,
	// and declarations.
	other = regexp.MustCompile(`\.test\.tsx?$|\.d\.ts$|_samples\.ts$|^kit/check\.ts$`)
)

// strays returns the texts that are not in tables, and the texts in style sheets. The paths of the
// modules are relative to ingress/web in the repository. strays returns an error if there are no
// modules, because then a path is wrong.
func strays(ctx context.Context, root string, paths []string) ([]stray, error) {
	web := filepath.Join(root, "ingress", "web")
	var files []string
	for _, path := range paths {
		err := filepath.WalkDir(filepath.Join(web, path), func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !code.MatchString(name) || table.MatchString(name) {
				return err
			}
			below, err := filepath.Rel(web, name)
			if !other.MatchString(below) {
				files = append(files, below)
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("listing modules: %w", err)
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no TypeScript modules in %s", strings.Join(paths, ", "))
	}

	scripts, err := transform(ctx, root, web, files)
	if err != nil {
		return nil, err
	}
	printed, found, err := readStyles(web)
	if err != nil {
		return nil, err
	}
	for i, script := range scripts {
		for _, l := range literals(script) {
			if l.isText(printed) {
				found = append(found, stray{files[i], l.value})
			}
		}
	}
	return found, nil
}

// readStyles reads all style sheets. It returns the names of the attributes whose values the style
// sheets print, and the texts in the style sheets. Such a text is a stray, because it cannot be
// translated.
func readStyles(web string) (printed map[string]bool, found []stray, err error) {
	printed = map[string]bool{}
	files := os.DirFS(web)
	err = fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (name == "dist" || name == "third_party"):
			return fs.SkipDir
		case entry.IsDir() || filepath.Ext(name) != ".css":
			return nil
		}

		sheet, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		attributes, texts := printedBy(string(sheet))
		for _, attribute := range attributes {
			printed[attribute] = true
		}
		for _, text := range texts {
			found = append(found, stray{name, text})
		}
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("reading style sheets: %w", err)
	}
	return printed, found, nil
}

// These patterns match the property named content in a style sheet, the parts of its value, and
// escape sequences in them.
var (
	contentProperty = regexp.MustCompile(`(?:^|[\s;{])content:([^;}]*)`)
	contentValue    = regexp.MustCompile(`attr\(\s*([\w-]+)|"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'`)
	escapeInStyle   = regexp.MustCompile(`\\(?:[0-9A-Fa-f]{1,6}\s?|.)`)
)

// printedBy returns the attributes and the texts that a style sheet prints with the property
// content.
func printedBy(sheet string) (attributes, texts []string) {
	for _, declaration := range contentProperty.FindAllStringSubmatch(sheet, -1) {
		for _, value := range contentValue.FindAllStringSubmatch(declaration[1], -1) {
			text := value[2] + value[3]
			switch {
			case value[1] != "":
				attributes = append(attributes, value[1])
			case word.MatchString(escapeInStyle.ReplaceAllString(text, " ")):
				texts = append(texts, text)
			}
		}
	}
	return attributes, texts
}

// transform returns TypeScript modules as JavaScript, in the order of files. JSX becomes function
// calls, so that its texts are ordinary strings. transform runs bin/esbuild.
func transform(ctx context.Context, root, web string, files []string) ([]string, error) {
	out, err := os.MkdirTemp("", "parley-texts-")
	if err != nil {
		return nil, fmt.Errorf("creating a folder: %w", err)
	}
	defer os.RemoveAll(out)

	esbuild, err := filepath.Abs(filepath.Join(root, "bin", "esbuild"))
	if err != nil {
		return nil, fmt.Errorf("finding esbuild: %w", err)
	}
	arguments := []string{"--tsconfig-raw={}", "--jsx=automatic", "--charset=utf8", "--log-level=warning", "--outbase=.", "--outdir=" + out}
	command := exec.CommandContext(ctx, esbuild, append(arguments, files...)...)
	command.Dir = web
	if printed, err := command.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("running bin/esbuild (built by make bin/esbuild): %w\n%s", err, printed)
	}

	scripts := make([]string, len(files))
	for i, name := range files {
		content, err := os.ReadFile(filepath.Join(out, code.ReplaceAllString(name, ".js")))
		if err != nil {
			return nil, fmt.Errorf("reading a script: %w", err)
		}
		scripts[i] = string(content)
	}
	return scripts, nil
}

var (
	word     = regexp.MustCompile(`\p{L}{2}`)
	sentence = regexp.MustCompile(`\p{L}\S* +\S|\S +\S*\p{L}|\p{L} $|^ \p{L}`)
	oneWord  = regexp.MustCompile(`^\p{Lu}\p{Ll}+[.:!?…]?$`)

	// Names of attributes and properties whose values people read or hear, and of those whose
	// values only browsers use.
	read = regexp.MustCompile(`^(children|aria-(label|description|roledescription|valuetext)|placeholder|title|alt|label|hint|` +
		`head|question|detail|intro|caption|what)$`)
	machine = regexp.MustCompile(`^(class|className|key|id|for|htmlFor|href|src|rel|d|viewBox|style|type|role|accept|autocomplete|` +
		`path|method|aria-(controls|describedby|labelledby|live|haspopup|keyshortcuts)|keys|data-.*)$`)

	// Functions whose first argument is shown to people, and functions whose arguments only
	// developers or browsers use.
	shown     = regexp.MustCompile(`^(toast|failed)$`)
	technical = regexp.MustCompile(`^(console\.\w+|matchMedia|CSS\.supports|useQuery|` +
		`([\w.]*\.)?(querySelector(All)?|closest|matches|supports|setProperty|getContext|includes|startsWith))$`)
	// samples matches the elements whose content is code.
	samples = regexp.MustCompile(`^(code|kbd|pre|samp)$`)
	// names matches the names of keys, headers and programs, which are the same in every language.
	names = regexp.MustCompile(`^(Enter|Escape|Tab|Backspace|Authorization|Bearer ⟨…⟩|` +
		`Edge|Opera|Firefox|Chrome|Safari|Android|Windows|Linux)$`)
	// Patterns of strings for machines: addresses, paths of icons, lengths and media queries, and
	// lines of programs, commands, requests and configurations.
	machines = regexp.MustCompile(`^(https?://\S+|@\w+|not all|(min|max)\(.*\)|M-?\d[\dA-Za-z. -]*|\([a-z-]+: [^)]*\)(, all| and \([a-z-]+: [^)]*\))*)$`)
	programs = regexp.MustCompile(`^( ?-[A-Z] ["']|curl |systemctl |kubectl |crontab |const \w+ = |import .*(from "|\n)|` +
		`from \w+ import |body=⟨|mac := |[#/]/? On your server|# crontab|#!/|<script |\[Unit\]\n|\{\n|(name|apiVersion): \S+\n|(POST|GET) ⟨|` +
		`PARLEY_\w+=|[xX]-[a-z-]+: |(prefer|content-type|idempotency-key|Content-Security-Policy): )`)
)

// isText reports whether people read a string. A single word in lower case counts as a text only in
// a place whose content the page certainly shows. The argument printed contains the names of
// attributes whose values style sheets print.
func (l literal) isText(printed map[string]bool) bool {
	switch {
	case !word.MatchString(strings.ReplaceAll(l.value, gap, "")) || names.MatchString(l.value):
		return false
	case technical.MatchString(l.function) || samples.MatchString(l.element):
		return false
	case machine.MatchString(l.property) && !printed[l.property]:
		return false
	case machines.MatchString(l.value) || programs.MatchString(l.value):
		return false
	case read.MatchString(l.property), printed[l.property], l.argument == 0 && shown.MatchString(l.function):
		return true
	case l.function == "h" && l.argument >= 2, l.function == "many":
		return true
	default:
		return sentence.MatchString(l.value) || oneWord.MatchString(l.value)
	}
}
