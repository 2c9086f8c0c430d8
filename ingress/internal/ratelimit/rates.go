package ratelimit

// Rate is the limit of one tier in requests per [Window].
type Rate struct {
	Name     string // name of the tier in responses
	Requests int
	Per      string // what the limit applies to, such as "user"
}

// Rates returns the limits of all tiers.
func (l *Limits) Rates() []Rate {
	return []Rate{
		{l.user.name, l.user.limit, "credential"},
		{l.userTotal.name, l.userTotal.limit, "user"},
		{l.system.name, l.system.limit, "organization"},
		{"demo", l.demo.limit, "address"},
		{l.widgets.visitor.name, l.widgets.visitor.limit, "visitor"},
		{l.widgets.address.name, l.widgets.address.limit, "address"},
		{l.widgets.agent.name, l.widgets.agent.limit, "agent"},
		{l.widgets.tokens.name, l.widgets.tokens.limit, "agent"},
	}
}
