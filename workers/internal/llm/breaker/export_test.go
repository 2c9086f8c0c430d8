package breaker

// Circuits returns the number of breakers that the provider has.
func Circuits(p *Provider) int { return len(p.circuits) }
