package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

// ruleFile is a Prometheus rule file, with only the fields that are checked here.
type ruleFile struct {
	Groups []struct {
		Name  string  `json:"name"`
		Rules []alert `json:"rules"`
	} `json:"groups"`
}

type alert struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// board is a Grafana dashboard, with only its Prometheus queries.
type board struct {
	Panels []struct {
		ID      int    `json:"id"`
		Title   string `json:"title"`
		Type    string `json:"type"`
		GridPos struct {
			W int `json:"w"`
			X int `json:"x"`
		} `json:"gridPos"`
		Targets []struct {
			RefID string `json:"refId"`
			Expr  string `json:"expr"`
		} `json:"targets"`
	} `json:"panels"`
}

// checkAlerts parses the alerts as Prometheus does and the dashboard as Grafana does. It checks
// that the targets of the references in both files exist. A test in scripts/e2e checks that Parley
// exports the metrics that the alerts and the dashboard query.
func checkAlerts(root string) []error {
	return append(checkRules(root), checkBoard(root)...)
}

// checkRules checks the alerts in deploy/grafana/alerts.yaml. Their names must be unique, and their
// links must lead to headings of docs/telemetry.md.
func checkRules(root string) (problems []error) {
	raw, err := read(root, "deploy", "grafana", "alerts.yaml")
	if err != nil {
		return []error{err}
	}

	var file ruleFile
	if err := yaml.UnmarshalStrict(raw, &file); err != nil {
		return []error{fmt.Errorf("reading alerts.yaml: %w", err)}
	}

	page, err := read(root, "docs", "telemetry.md")
	if err != nil {
		return []error{err}
	}

	chapters, seen := anchors(string(page)), map[string]bool{}
	for _, group := range file.Groups {
		for _, a := range group.Rules {
			for _, problem := range a.problems(chapters) {
				problems = append(problems, fmt.Errorf("%s, %s: %w", group.Name, a.Alert, problem))
			}
			if seen[a.Alert] {
				problems = append(problems, fmt.Errorf("two alerts have the name %s", a.Alert))
			}
			seen[a.Alert] = true
		}
	}

	if len(seen) == 0 {
		problems = append(problems, errors.New("alerts.yaml has no alerts"))
	}
	return problems
}

var alertName = regexp.MustCompile(`^Parley[A-Z][A-Za-z]+$`)

// problems returns an error for each mistake in an alert.
func (a alert) problems(chapters []string) (problems []error) {
	if !alertName.MatchString(a.Alert) {
		problems = append(problems, errors.New("the name is invalid"))
	}
	if err := parse(a.Expr); err != nil {
		problems = append(problems, err)
	}
	if a.For != "" {
		if _, err := model.ParseDuration(a.For); err != nil {
			problems = append(problems, fmt.Errorf("reading the duration: %w", err))
		}
	}
	if !slices.Contains([]string{"critical", "warning", "info"}, a.Labels["severity"]) {
		problems = append(problems, fmt.Errorf("the severity %q is invalid", a.Labels["severity"]))
	}

	for _, name := range []string{"summary", "description", "runbook"} {
		if a.Annotations[name] == "" {
			problems = append(problems, fmt.Errorf("the alert has no %s", name))
		}
		if err := isTemplate(a.Annotations[name]); err != nil {
			problems = append(problems, fmt.Errorf("the annotation %s: %w", name, err))
		}
	}

	if chapter, ok := strings.CutPrefix(a.Annotations["runbook"], "docs/telemetry.md#"); !ok || !slices.Contains(chapters, chapter) {
		problems = append(problems, fmt.Errorf("the runbook %q is not a heading in docs/telemetry.md", a.Annotations["runbook"]))
	}
	return problems
}

// parse returns an error if a text is not a valid PromQL expression.
func parse(expr string) error {
	if _, err := parser.ParseExpr(expr); err != nil {
		return fmt.Errorf("reading %q: %w", expr, err)
	}
	return nil
}

// isTemplate returns an error if a text is not a valid Prometheus template.
func isTemplate(text string) error {
	unit := func(any) string { return "" }
	_, err := template.New("").Funcs(template.FuncMap{
		"humanize": unit, "humanize1024": unit, "humanizeDuration": unit, "humanizePercentage": unit,
	}).Parse("{{$labels := .Labels}}{{$value := .Value}}" + text)
	return err
}

var heading = regexp.MustCompile(`(?m)^#+ (.*)$`)

// anchors returns the anchors of the headings on a page.
func anchors(page string) (list []string) {
	for _, found := range heading.FindAllStringSubmatch(page, -1) {
		kept := strings.Map(func(r rune) rune {
			if r == ' ' || r == '-' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
				return r
			}
			return -1
		}, strings.ToLower(found[1]))
		list = append(list, strings.ReplaceAll(kept, " ", "-"))
	}
	return list
}

func checkBoard(root string) (problems []error) {
	raw, err := read(root, "deploy", "grafana", "parley.json")
	if err != nil {
		return []error{err}
	}

	var b board
	if err := json.Unmarshal(raw, &b); err != nil {
		return []error{fmt.Errorf("reading parley.json: %w", err)}
	}

	ids := map[int]bool{}
	for _, p := range b.Panels {
		if ids[p.ID] {
			problems = append(problems, fmt.Errorf("the panel %q has the same ID as another panel", p.Title))
		}
		ids[p.ID] = true
		if p.Type != "row" && len(p.Targets) == 0 || p.Title == "" || p.GridPos.X+p.GridPos.W > 24 {
			problems = append(problems, fmt.Errorf("the panel %q has no query or no title, or does not fit", p.Title))
		}
		for _, target := range p.Targets {
			if err := parse(strings.ReplaceAll(target.Expr, "$__rate_interval", "5m")); err != nil {
				problems = append(problems, fmt.Errorf("the panel %q: %w", p.Title, err))
			}
		}
	}

	if len(ids) == 0 {
		problems = append(problems, errors.New("parley.json has no panels"))
	}
	return problems
}
