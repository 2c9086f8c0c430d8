package webhookin

import (
	"fmt"

	"parley/shared/domain"
)

// Rules are what a hook does with its deliveries: its filter, its message, and what it gathers them by. They are safe for
// concurrent use.
type Rules struct {
	message    []piece
	filter     []condition
	key        []piece
	coalesces  bool
	wanted     *wanted
	wantedMany int
}

// Fault is what is wrong with a hook's rules: the field, as its body names it, and why.
type Fault struct {
	Field string
	Err   error
}

// NewRules reads a hook's rules, and says everything that is wrong with them.
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
	if len(faults) > 0 {
		return nil, faults
	}
	r.want(r.message)
	r.want(r.key)
	for i := range r.filter {
		r.place(&r.filter[i].piece)
	}
	return r, nil
}

func (r *Rules) want(pieces []piece) {
	for i := range pieces {
		r.place(&pieces[i])
	}
}

func (r *Rules) place(p *piece) {
	if p.path == nil {
		return
	}
	if p.at = r.wanted.add(p.path, r.wantedMany); p.at == r.wantedMany {
		r.wantedMany++
	}
}

// Outcome is what a hook's rules make of a delivery.
type Outcome struct {
	Passed  bool   // the filter
	Message string // of the run; at most 32,000 characters, and none when the template gave nothing
	Key     string // deliveries with the same are one run; "" is a run of its own
}

// Apply carries a hook's rules out on a delivery.
func (r *Rules) Apply(e *Event) Outcome {
	f := r.fill(e)
	for i := range r.filter {
		if !r.filter[i].holds(f) {
			return Outcome{}
		}
	}
	return r.outcome(f)
}

// ApplyUnfiltered is Apply for a delivery that somebody wants run, whatever the filter says, and by itself.
func (r *Rules) ApplyUnfiltered(e *Event) Outcome {
	out := r.outcome(r.fill(e))
	out.Key = ""
	return out
}

func (r *Rules) fill(e *Event) *filled {
	return &filled{
		event: e.Name, deliveryID: e.ID, payload: e.Payload, values: find(e.Payload.raw, r.wanted, r.wantedMany),
		texts: map[int]string{}, hashes: map[int]string{}, decoded: map[int]string{},
	}
}

func (r *Rules) outcome(f *filled) Outcome {
	out := Outcome{Passed: true, Message: f.message(r.message)}
	if r.coalesces {
		out.Key, _ = f.key(r.key)
	}
	return out
}
