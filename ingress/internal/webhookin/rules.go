package webhookin

import (
	"fmt"

	"parley/shared/domain"
)

// Rules are a hook's filter, message template and coalescing key. They are safe for concurrent use.
type Rules struct {
	message   []piece
	filter    []condition
	key       []piece
	coalesces bool // the hook coalesces deliveries by key

	// the paths of all rules
	wanted *wanted
	// number of different paths
	wantedMany int
}

// Fault is an invalid field of a hook's rules, by its name in the request body, and the reason.
type Fault struct {
	Field string
	Err   error
}

// NewRules parses a hook's rules. It returns all faults together.
func NewRules(messageTemplate string, filter []domain.HookFilter, coalesce *domain.HookCoalesce) (*Rules, []Fault) {
	r := &Rules{wanted: newWanted(), coalesces: coalesce != nil}
	var faults []Fault
	note := func(field string, err error) {
		if err != nil {
			faults = append(faults, Fault{field, err})
		}
	}

	var err error
	r.message, err = parseTemplate(messageTemplate)
	note("messageTemplate", err)
	for i, f := range filter {
		c, part, err := parseFilter(f)
		note(fmt.Sprintf("filter[%d].%s", i, part), err)
		r.filter = append(r.filter, c)
	}
	if coalesce != nil {
		r.key, err = parseTemplate(coalesce.Key)
		note("coalesce.key", err)
	}
	// An invalid hook is never stored, so there are no partial rules.
	if len(faults) > 0 {
		return nil, faults
	}

	// Every path gets the index at which find stores its value.
	r.want(r.message)
	r.want(r.key)
	for i := range r.filter {
		r.place(&r.filter[i].piece)
	}
	return r, nil
}

// want registers the paths of a template's placeholders.
func (r *Rules) want(pieces []piece) {
	for i := range pieces {
		r.place(&pieces[i])
	}
}

// place registers a placeholder's path and sets the index of its value. It does nothing for texts
// and names.
func (r *Rules) place(p *piece) {
	// Texts and names have no value in the payload.
	if p.path == nil {
		return
	}
	if p.at = r.wanted.add(p.path, r.wantedMany); p.at == r.wantedMany {
		r.wantedMany++
	}
}

// Outcome is the result of a hook's rules for a delivery.
type Outcome struct {
	Passed  bool   // the delivery passed the filter
	Message string // the run's message, at most 2 MiB; empty if the template produced nothing
	Key     string // deliveries with the same key share a run; "": a run for this delivery alone
}

// Apply applies the rules to a delivery.
func (r *Rules) Apply(e *Event) Outcome {
	f := r.fill(e)
	for i := range r.filter {
		// All conditions must be met, so the first failure decides.
		if !r.filter[i].holds(f) {
			return Outcome{}
		}
	}
	return r.outcome(f)
}

// ApplyUnfiltered is Apply for a delivery that a user redelivers: it ignores the filter and does
// not coalesce.
func (r *Rules) ApplyUnfiltered(e *Event) Outcome {
	out := r.outcome(r.fill(e))
	out.Key = ""
	return out
}

// fill reads the values of all paths from a delivery. Texts are decoded when they are first used.
func (r *Rules) fill(e *Event) *placeholderValues {
	return &placeholderValues{
		event: e.Name, deliveryID: e.ID, payload: e.Payload, values: find(e.Payload.raw, r.wanted, r.wantedMany),
		limit: min(maxMessage, ownText+e.Payload.Bytes), texts: map[int]string{}, hashes: map[int]string{}, decoded: map[int]string{},
	}
}

// outcome renders the message and the key of a delivery that passed the filter.
func (r *Rules) outcome(f *placeholderValues) Outcome {
	out := Outcome{Passed: true, Message: f.message(r.message)}
	if r.coalesces {
		// Without a complete key, the delivery starts a separate run.
		out.Key, _ = f.key(r.key)
	}
	return out
}
