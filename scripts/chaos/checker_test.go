package chaos

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"parley/scripts/internal/api"
	"parley/scripts/internal/cluster"
)

const (
	// afterDeadline is the tolerance for runs that finish after their deadline.
	afterDeadline = time.Minute
	// maxShown is the number of violations of each rule that are reported in full.
	maxShown = 5
)

// verdict is the checker's result: the violations of each rule and the number of checks.
type verdict struct {
	Violations map[string][]string // descriptions of the violations, by rule
	Checked    map[string]int
}

func (v *verdict) violatef(rule, format string, args ...any) {
	v.Violations[rule] = append(v.Violations[rule], fmt.Sprintf(format, args...))
}

func (v *verdict) checked(what string) { v.Checked[what]++ }

// rules contains the checks of the evidence by name. They do not depend on each other.
var rules = map[string]func(*evidence, func(format string, args ...any), func(what string)){
	"every accepted run ends":       checkEnds,
	"no run finishes late":          checkLate,
	"few runs fail":                 checkBadEnds,
	"one run per key":               checkKeys,
	"equal answers per key":         checkAnswers,
	"terminal rows never change":    checkUnchanged,
	"effects at most once":          checkEffects,
	"no effect is lost":             checkPaid,
	"clients' calls after own ones": checkRates,
	"honest refusals of results":    checkResults,
	"session order":                 checkOrder,
	"sessions remember their turns": checkTurns,
	"no stuck waiter":               checkWaiters,
	"honest refusals":               checkRefusals,
	"memory and descriptors flat":   checkFlat,
	"parts end only when struck":    checkParts,
}

// check checks the evidence against all rules. Its result depends only on the evidence.
func check(e *evidence) *verdict {
	v := &verdict{Violations: map[string][]string{}, Checked: map[string]int{}}
	for name, rule := range rules {
		rule(e, func(format string, args ...any) { v.violatef(name, format, args...) }, v.checked)
	}
	return v
}

func (e *evidence) rowsByID() map[string]row {
	all := make(map[string]row, len(e.Rows))
	for _, r := range e.Rows {
		all[r.ID] = r
	}
	return all
}

// checkEnds checks that every accepted run is in the database and that every run has finished.
func checkEnds(e *evidence, wrong func(string, ...any), checked func(string)) {
	rows, seen := e.rowsByID(), map[string]bool{}
	for _, r := range e.Requests {
		if !r.accepted() || seen[r.Run] {
			continue
		}
		seen[r.Run] = true
		checked("accepted runs")
		if found, known := rows[r.Run]; !known {
			wrong("run %s for %s was accepted with status %d, but is not in the database", r.Run, r.Key, r.Status)
		} else if !api.Terminal(found.Status) {
			wrong("run %s for %s was accepted with status %d, but has not finished: %q", r.Run, r.Key, r.Status, found.Status)
		}
	}

	for _, r := range e.Rows {
		checked("runs in the database")
		if !api.Terminal(r.Status) {
			wrong("run %s in the database has not finished: %q", r.ID, r.Status)
		}
	}

	for _, o := range e.Open {
		wrong("run %s is still open: %s, deadline %s", o.ID, o.Status, o.Deadline.Format(time.TimeOnly))
	}
}

// checkLate checks that each run has finished before its deadline or within the time afterDeadline
// after it.
func checkLate(e *evidence, wrong func(string, ...any), checked func(string)) {
	asked := map[string]time.Time{}
	for _, d := range e.Decisions {
		asked[d.Run] = d.At
	}
	for _, r := range e.Results {
		if r.Done.After(asked[r.Run]) {
			asked[r.Run] = r.Done
		}
	}

	for _, r := range e.Rows {
		if !api.Terminal(r.Status) {
			continue
		}
		// The time that the run waited for a person or its client does not count.
		from := r.Created
		if at := asked[r.ID]; at.After(from) {
			from = at
		}
		checked("ends in time")
		if late := r.Finished.Sub(from) - e.Deadline; late > afterDeadline {
			wrong("run %s finished %s after its deadline", r.ID, late)
		}
	}
}

// Allowed numbers of accepted runs that do not complete. A run may fail only because kills hit it
// five times or because they delay it past its deadline. Both are rare.
const (
	badEndsPerCent = 5
	badEndsAlways  = 2 // allowed even if there are few runs
)

// checkBadEnds checks that few accepted runs end without completing.
func checkBadEnds(e *evidence, wrong func(string, ...any), checked func(string)) {
	accepted := map[string]bool{}
	for _, r := range e.Requests {
		if r.accepted() {
			accepted[r.Run] = true
		}
	}

	var bad []row
	for _, r := range e.Rows {
		switch {
		case !accepted[r.ID]:
		case r.Status == "completed":
			checked("accepted runs that completed")
		case api.Terminal(r.Status): // unfinished runs violate another rule
			bad = append(bad, r)
		}
	}

	if len(bad) <= max(badEndsAlways, len(accepted)*badEndsPerCent/100) {
		return
	}

	for _, r := range bad {
		wrong("run %s, one of %d failures in %d runs, is %s: %s", r.ID, len(bad), len(accepted), r.Status, r.Result)
	}
}

// checkKeys checks that each key has one run, and that every response for the key contains the ID
// of that run.
func checkKeys(e *evidence, wrong func(string, ...any), checked func(string)) {
	runs := map[string]string{}
	for _, r := range e.Rows {
		if r.Key == "" {
			continue
		}
		checked("keys with one run")
		if other, known := runs[r.Key]; known {
			wrong("key %s has two runs: %s and %s", r.Key, other, r.ID)
		}
		runs[r.Key] = r.ID
	}

	for _, r := range e.Requests {
		if r.Key == "" || !r.accepted() {
			continue
		}
		checked("answers that name their key's run")
		if run := runs[r.Key]; run != r.Run {
			wrong("response for key %s has run %s, want %q", r.Key, r.Run, run)
		}
	}
}

// checkAnswers checks that all responses with a finished run have the content that the database
// stores, and that all responses for a key are equal.
func checkAnswers(e *evidence, wrong func(string, ...any), checked func(string)) {
	rows, first, asked := e.rowsByID(), map[string]string{}, map[string]int{}
	for _, r := range e.Requests {
		if r.Body == "" {
			continue
		}
		if kept := rows[r.Run].Result; r.Body != kept {
			wrong("key %s: the response differs from the stored run %s:\n  %s\n  %s", r.Key, r.Run, r.Body, kept)
		}
		if r.Key == "" {
			continue
		}
		checked("answers compared")
		if asked[r.Key]++; asked[r.Key] == 2 {
			checked("keys answered more than once")
		}
		if before, known := first[r.Key]; known && before != r.Body {
			wrong("key %s has two different responses:\n  %s\n  %s", r.Key, before, r.Body)
		}
		first[r.Key] = r.Body
	}
}

// checkUnchanged checks that the row of a finished run does not change or disappear.
func checkUnchanged(e *evidence, wrong func(string, ...any), checked func(string)) {
	rows := e.rowsByID()
	for id, before := range e.Seen {
		checked("terminal rows watched")
		if now, known := rows[id]; !known {
			wrong("run %s had finished, but its row is gone", id)
		} else if now.Print != before {
			wrong("run %s had finished, but its row has changed: %s, before: %s", id, now.Print, before)
		}
	}
}

// checkEffects checks the payments in the ledger. An idempotent bill must always be sent with the
// same key. An unsafe bill may be sent again only as often as the person has decided to send it
// again.
func checkEffects(e *evidence, wrong func(string, ...any), checked func(string)) {
	resent := map[string]int{}
	for _, d := range e.Decisions {
		if d.Said == "resend" {
			resent[d.Bill]++
		}
	}

	bills := map[string][]effect{}
	for _, f := range e.Effects {
		bills[f.Tool+" "+f.Bill] = append(bills[f.Tool+" "+f.Bill], f)
	}

	for _, effects := range bills {
		bill, tool := effects[0].Bill, effects[0].Tool
		checked("bills paid, " + tool)
		if len(effects) > 1 {
			checked("bills sent again, " + tool)
		}
		keys := map[string]bool{}
		for _, f := range effects {
			keys[f.Key] = true
		}
		switch {
		case tool == "idempotent" && (len(keys) != 1 || keys[""]):
			wrong("bill %s was paid %d times, with %d keys: %v", bill, len(keys), len(keys), slices.Sorted(maps.Keys(keys)))
		case tool == "unsafe" && len(effects) > 1+resent[bill]:
			wrong("bill %s was sent %d times, but a person decided %d times to repeat it", bill, len(effects), resent[bill])
		}
	}
}

// checkPaid checks that the answer of each completed run with a bill contains the payment or the
// person's confirmation of it. The ledger must contain the payment.
func checkPaid(e *evidence, wrong func(string, ...any), checked func(string)) {
	paid := map[string]bool{}
	for _, f := range e.Effects {
		paid[f.Bill] = true
	}

	confirmed := map[string]bool{}
	for _, d := range e.Decisions {
		if d.Said == "happened" {
			confirmed[d.Bill] = true
		}
	}

	for _, r := range e.Rows {
		bill, known := billFor(r.Message)
		if !known || r.Status != "completed" {
			continue
		}
		switch {
		case strings.Contains(r.Result, paidMark):
			checked("bills whose run says that they were paid")
		case strings.Contains(r.Result, confirmedMark) && confirmed[bill.name]:
			checked("bills whose run says that a person said that they were paid")
		default:
			wrong("run %s completed, but bill %s was not paid: %s", r.ID, bill.name, r.Result)
			continue
		}
		if !paid[bill.name] {
			wrong("run %s says that bill %s was paid, but the ledger has no payment", r.ID, bill.name)
		}
	}
}

// checkRates checks the completed runs whose first turn calls a tool of the client and a tool of
// the agent. Such a run must have one call of the client's tool, after the first call of the
// agent's tool. Its model must have received the result of the client's tool.
func checkRates(e *evidence, wrong func(string, ...any), checked func(string)) {
	sent := map[string]bool{}
	for _, r := range e.Results {
		sent[r.Run] = true
	}

	for _, r := range e.Rows {
		bill, known := billFor(r.Message)
		if !known || !strings.HasSuffix(r.Message, withRate) || r.Status != "completed" {
			continue
		}
		checked("completed runs with calls of both kinds of tools")
		var result struct {
			ToolCalls []struct {
				Name   string `json:"name"`
				Status string `json:"status"`
			} `json:"toolCalls"`
		}
		if err := json.Unmarshal([]byte(r.Result), &result); err != nil {
			wrong("run %s has a result that is not JSON: %v", r.ID, err)
			continue
		}
		var calls []string
		rates := 0
		for _, call := range result.ToolCalls {
			calls = append(calls, call.Name+" "+call.Status)
			if call.Name == rateTool {
				rates++
			}
		}
		if len(calls) < 2 || rates != 1 || result.ToolCalls[0].Name != bill.tool || calls[1] != rateTool+" completed" {
			wrong("run %s has the calls %q", r.ID, calls)
		}
		if !sent[r.ID] || !strings.Contains(r.Result, rateMark) {
			wrong("run %s completed without its client's result: %s", r.ID, r.Result)
		}
	}
}

// checkResults checks the responses to results of clients. A run that failed or timed out no longer
// takes results.
func checkResults(e *evidence, wrong func(string, ...any), checked func(string)) {
	rows := e.rowsByID()
	for _, r := range e.Results {
		switch r.Status {
		case 0, 429, 503:
		case 200:
			checked("results of clients that were taken")
		default:
			if rows[r.Run].Status == "completed" || r.Status >= 500 {
				wrong("results for run %s got status %d: %s", r.Run, r.Status, r.Problem)
			}
		}
	}
}

// bySession returns the runs of each session in the order of their sequence numbers.
func (e *evidence) bySession() map[string][]row {
	sessions := map[string][]row{}
	for _, r := range e.Rows {
		if _, _, known := turnFor(r.Message); known {
			sessions[r.Session] = append(sessions[r.Session], r)
		}
	}
	for _, runs := range sessions {
		slices.SortFunc(runs, func(a, b row) int { return cmp.Compare(a.Seq, b.Seq) })
	}
	return sessions
}

// checkOrder checks that the turns of a session are executed in order and do not overlap.
func checkOrder(e *evidence, wrong func(string, ...any), checked func(string)) {
	for session, runs := range e.bySession() {
		for i := 1; i < len(runs); i++ {
			before, after := runs[i-1], runs[i]
			checked("turns that follow another")
			_, first, _ := turnFor(before.Message)
			_, second, _ := turnFor(after.Message)
			if first >= second {
				wrong("session %s: turn %d precedes turn %d", session, first, second)
			}
			if !after.Started.IsZero() && after.Started.Before(before.Finished) {
				wrong("session %s: turn %d began %s before turn %d ended", session, second, before.Finished.Sub(after.Started), first)
			}
		}
	}
}

// checkTurns checks the messages that the model receives for a turn: all earlier completed turns of
// the session, in order, and no later turn.
func checkTurns(e *evidence, wrong func(string, ...any), checked func(string)) {
	completed := map[string][]int{}
	for session, runs := range e.bySession() {
		for _, r := range runs {
			if _, n, _ := turnFor(r.Message); r.Status == "completed" {
				completed[session] = append(completed[session], n)
			}
		}
	}

	for _, t := range e.Turns {
		checked("model calls of turns")
		if !slices.IsSorted(t.Before) || len(t.Before) > 0 && t.Before[len(t.Before)-1] >= t.N {
			wrong("session %s: the model call of turn %d contains turns %v", t.Session, t.N, t.Before)
		}
		for _, n := range completed[t.Session] {
			if n < t.N && !slices.Contains(t.Before, n) {
				wrong("session %s: the model call of turn %d contains turns %v, but not turn %d, which was answered", t.Session, t.N, t.Before, n)
			}
		}
	}
}

// checkWaiters checks the duration of each request. The allowed duration is extended by the time in
// which the ingress or PostgreSQL was interrupted.
func checkWaiters(e *evidence, wrong func(string, ...any), checked func(string)) {
	for _, r := range e.Requests {
		within := r.Within
		for _, in := range e.Interrupted {
			if (in.Part == r.Via || in.Part == "postgres") && in.From.Before(r.Done) && in.To.After(r.Sent) {
				within += in.To.Sub(in.From)
			}
		}
		if r.Status == 0 {
			checked("requests whose connection broke")
		} else {
			checked("requests answered")
		}
		if took := r.Done.Sub(r.Sent); took > within {
			wrong("a request for %s through %s took %s, want at most %s: %d %s", r.Key, r.Via, took, within, r.Status, r.Problem)
		}
	}
}

func checkRefusals(e *evidence, wrong func(string, ...any), checked func(string)) {
	for _, r := range e.Requests {
		switch r.Status {
		case 0, 200, 202:
		case 429, 503:
			checked("refusals with Retry-After")
			if !r.RetryAfter {
				wrong("a request for %s got status %d without Retry-After", r.Key, r.Status)
			}
		default:
			wrong("a request for %s got status %d: %s", r.Key, r.Status, r.Problem)
		}
	}
}

// Leak limits: the maximum growth of a process's resource usage under load, from the first to the
// last quarter of its lifetime. The upper quartile of the first quarter is compared with the lower
// quartile of the last quarter, because temporary peaks are not leaks. A process with little load
// needs minutes to fill heapRoom, the memory that lifecycle.CollectSeldom permits between two
// collections, so memory below the lowest sample plus heapRoom is not a leak.
const (
	heapRoom                         = 64 << 20
	memoryFactor, memoryMore         = 1.1, 16 << 20
	descriptorFactor, descriptorMore = 1, 16
	fewestSamples                    = 24
	shortestLife                     = time.Minute
	longLife                         = 2 * time.Minute
	// warmUp is the time under load in which a process opens its connections and fills its caches.
	warmUp             = 15 * time.Second
	judged, judgedLong = "processes whose memory and descriptors were compared", "… which ran for more than two minutes"
)

// checkFlat checks that no process leaks memory or file descriptors.
func checkFlat(e *evidence, wrong func(string, ...any), checked func(string)) {
	for life, samples := range e.usageByProcess() {
		lived := samples[len(samples)-1].At.Sub(samples[0].At)
		if len(samples) < fewestSamples || lived < shortestLife {
			continue
		}
		checked(judged)
		if lived > longLife {
			checked(judgedLong)
		}
		quarter := len(samples) / 4
		for what, measure := range map[string]struct {
			of           func(sample) int64
			room         int64
			factor, more float64
		}{
			"memory":      {func(s sample) int64 { return s.Memory }, heapRoom, memoryFactor, memoryMore},
			"descriptors": {func(s sample) int64 { return int64(s.Descriptors) }, 0, descriptorFactor, descriptorMore},
		} {
			first, last := sorted(samples[:quarter], measure.of), sorted(samples[len(samples)-quarter:], measure.of)
			before, after := max(first[quarter*3/4], first[0]+measure.room), last[quarter/4]
			if float64(after) > measure.factor*float64(before)+measure.more {
				wrong("%s: %s grew from %d to %d in %s", life, what, before, after, lived)
			}
		}
	}
}

// usageByProcess returns the samples of each process that were taken under load and after its
// warm-up. It excludes periods in which the process, one of its links or a server was frozen,
// disconnected or full.
func (e *evidence) usageByProcess() map[string][]sample {
	usageByProcess, previous, warm := map[string][]sample{}, map[string]time.Time{}, map[string]time.Duration{}
	for _, s := range e.Samples {
		life := fmt.Sprintf("%s, process %d", s.Part, s.PID)
		idle := slices.ContainsFunc(e.Interrupted, func(in interruption) bool {
			return slices.Contains([]string{s.Part, cluster.NATS, cluster.Postgres}, in.Part) && in.From.Before(s.At) && in.To.After(s.At)
		})
		if idle {
			delete(previous, life)
			continue
		}
		if at, known := previous[life]; known {
			warm[life] += s.At.Sub(at)
		}
		previous[life] = s.At
		if s.At.Before(e.LoadUntil) && warm[life] >= warmUp {
			usageByProcess[life] = append(usageByProcess[life], s)
		}
	}
	return usageByProcess
}

func sorted(samples []sample, of func(sample) int64) []int64 {
	var values []int64
	for _, s := range samples {
		values = append(values, of(s))
	}
	slices.Sort(values)
	return values
}

func checkParts(e *evidence, wrong func(string, ...any), _ func(string)) {
	for _, end := range e.Ends {
		wrong("%s", end)
	}
}
