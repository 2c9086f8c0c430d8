package breaker

// Circuits counts the breakers that are kept.
func Circuits(p *Provider) int { return len(p.circuits) }
