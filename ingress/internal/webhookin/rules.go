package webhookin

import (
	"fmt"

	"parley/shared/domain"
)

// Rules are the filter, the message template and the coalescing key of a hook. They are safe for
// concurrent use. NewRules creates them for each hook that is read. The rules are not changed
// afterwards.
type Rules struct {
	// Template of the message, in parsed form.
	message []piece
	// Conditions that must all hold; none: every delivery passes.
	filter []condition
	// Template of the coalescing key; used only if coalesces is true.
	key       []piece
	coalesces bool // whether the hook coalesces deliveries by key

	// wanted contains the paths of all rules.
	wanted *wanted
	// wantedMany is the number of different paths in wanted.
	wantedMany int
}

// Fault describes an invalid field in the rules of a hook: its name in the request body and the
// reason. Field has the form that errors of the API use, such as filter[2].path.
type Fault struct {
	Field string
	Err   error
}

// NewRules parses the rules of a hook. If rules are invalid, it returns all faults together.
// coalesce may be nil. The limits of templates and filters are checked here. Rules that were stored
// are parsed again with NewRules, so new limits would also apply to them.
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
	// If one rule is invalid, no rules are returned, because an invalid hook must not be stored.
	if len(faults) > 0 {
		return nil, faults
	}

	// Each path gets an index, at which find stores its value.
	r.want(r.message)
	r.want(r.key)
	for i := range r.filter {
		r.register(&r.filter[i].piece)
	}
	return r, nil
}

// want registers the paths of a template's placeholders. It sets the index of each value in pieces.
func (r *Rules) want(pieces []piece) {
	for i := range pieces {
		r.register(&pieces[i])
	}
}

// register adds the path of a placeholder and sets the index of its value. It ignores literal
// text and names such as @event. Equal paths have the same index.
func (r *Rules) register(p *piece) {
	// Literal text and names do not refer to the payload.
	if p.path == nil {
		return
	}
	if p.at = r.wanted.add(p.path, r.wantedMany); p.at == r.wantedMany {
		r.wantedMany++
	}
}

// Outcome is the result of a hook's rules for a delivery.
type Outcome struct {
	Passed  bool   // whether the delivery passed the filter
	Message string // message of the run, at most 2 MiB; empty if the template gives an empty text
	Key     string // deliveries with the same key share a run; "": the delivery gets its own run
}

// Apply applies the rules to a delivery. If the delivery fails the filter, the other fields of the
// outcome are empty. Apply does not change e.
func (r *Rules) Apply(e *Event) Outcome {
	f := r.fill(e)
	for i := range r.filter {
		// All conditions must hold, so the first failed one decides.
		if !r.filter[i].holds(f) {
			return Outcome{}
		}
	}
	return r.outcome(f)
}

// ApplyUnfiltered applies the rules to a delivery that a user redelivers. It ignores the filter and
// does not coalesce the delivery. Passed is always true.
func (r *Rules) ApplyUnfiltered(e *Event) Outcome {
	out := r.outcome(r.fill(e))
	out.Key = ""
	return out
}

// fill reads the values of all paths from a delivery. Texts are decoded when they are used for the
// first time. The size of the message is limited by the size of the delivery; see ownText.
func (r *Rules) fill(e *Event) *placeholderValues {
	return &placeholderValues{
		event: e.Name, deliveryID: e.ID, payload: e.Payload, values: find(e.Payload.raw, r.wanted, r.wantedMany),
		limit: min(maxMessage, ownText+e.Payload.Bytes),
	}
}

// outcome renders the message and the key of a delivery that passed the filter.
func (r *Rules) outcome(f *placeholderValues) Outcome {
	out := Outcome{Passed: true, Message: f.message(r.message)}
	if r.coalesces {
		// If a part of the key is missing, the delivery starts its own run.
		out.Key, _ = f.key(r.key)
	}
	return out
}
